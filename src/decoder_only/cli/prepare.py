"""The command `prepare`."""

import io
import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from decoder_only.cli.options import Flag, option
from decoder_only.cli.words import command, plain
from decoder_only.data import prepared
from decoder_only.data.sources import tiny_shakespeare
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import checkpoint


def prepare(
    source: Positional[Annotated[tuple[str, ...], option("SOURCE")]],
    *,
    out: Annotated[Path, option("DIR")],
    tokenizer: Annotated[str, option("gpt2|V|DIR", "4096")] = "4096",
    train_share: float = 0.9,
    overwrite: Flag = False,
    quiet: Flag = False,
) -> None:
    """Turn text of any size into tokens, once, from which `train --text` then reads.

    Args:
        source: UTF-8 files; or one folder, whose .txt and .md files are taken; or `-` for
            standard input; or `shakespeare`.
        out: Folder for the tokens, new or empty.
        tokenizer: `gpt2`; or a vocabulary size, to be learned from the text; or the folder of a
            run or a model, for its own.
        train_share: How much of each text is to train on; its end is held out.
        overwrite: Take the place of tokens that are in the folder already.
        quiet: Do not show how far it is.
    """
    tokens = prepared.prepare(
        _source(source),
        out,
        tokenizer=_tokenizer(tokenizer),
        train_share=train_share,
        overwrite=overwrite,
        progress=not quiet,
    )
    n_bytes = tokens.train.n_bytes + tokens.validation.n_bytes
    for name in ("train", "validation"):
        corpus = getattr(tokens, name)
        tokens_of = f"{corpus.n_targets:,} tokens of {corpus.bytes_per_token:.2f} bytes"
        print(f"{name:10}  {tokens_of}, {corpus.n_bytes / n_bytes:.1%} of the text")
    print(f"\nThe tokens are in {plain(out)}. Learn from them:")
    print(command("train", "--text", out))


def _source(words: tuple[str, ...]) -> object:
    if not words:
        raise ValueError("give the text: files, a folder, - or shakespeare")
    if words == ("-",):
        return sys.stdin.buffer
    if words == ("shakespeare",) and not Path("shakespeare").exists():
        return io.StringIO(tiny_shakespeare())
    paths = [Path(word) for word in words]
    return paths[0] if len(paths) == 1 else paths


def _tokenizer(word: str) -> BytePairTokenizer | str | int:
    if word == "gpt2":
        return word
    if word.isdecimal():
        return int(word)
    path = Path(word, checkpoint.TOKENIZER)
    if not path.exists():
        raise ValueError(
            f"--tokenizer {word} is neither gpt2, nor a number, nor a folder with a "
            f"{checkpoint.TOKENIZER}"
        )
    return BytePairTokenizer.load(path)
