"""How fast the tokenizer trains and encodes, beside minbpe, Hugging Face tokenizers and tiktoken.

    python benchmarks/tokenization.py --text tinyshakespeare.txt --minbpe MINBPE_FOLDER

All measurements come from one run in one process. minbpe takes minutes and runs once; the others
run several times, in turn. `--minbpe` names a clone of github.com/karpathy/minbpe; without it its
rows are left out. The results are printed, and written to `benchmarks/results/`: all of them to
`tokenization.json`, and as a table to `tokenization.md`.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers
import tyro
from provenance import collect, measure, write_results
from tokenizers import models, pre_tokenizers, trainers

from decoder_only.tokenization import GPT2_BYTE_ORDER, GPT2_PATTERN, BytePairTokenizer

OURS = "decoder_only"
ONE_WORD = r"(?s).+"  # the whole text is one word: training without pre-tokenisation
RESULTS = Path(__file__).parent / "results" / "tokenization.json"

Row = dict[str, Any]


def main(
    text: Path, minbpe: Path | None = None, repeats: int = 7, out: Path = RESULTS
) -> None:
    """Measure, print a table, write the results.

    Args:
        text: a UTF-8 text of at least a megabyte, such as Tiny Shakespeare.
        minbpe: the folder of a clone of minbpe.
        repeats: how often to measure what is fast.
        out: the JSON file to write; the table lies beside it.
    """
    corpus = text.read_text(encoding="utf-8")
    print(f"{'':54} {'wall':>8} {'cpu':>8} seconds, and times ours")
    rows = list(training_beside_hugging_face(corpus, repeats))
    rows += encoding_beside_tiktoken(corpus, repeats)
    if minbpe:
        rows += training_beside_minbpe(corpus[:1_000_000], minbpe, repeats)
    packages = ["tiktoken", "tokenizers", "regex", "numpy"]
    provenance = collect(packages=packages, files=[text])
    write_results(out, {"provenance": provenance, "rows": rows})
    out.with_suffix(".md").write_text(table(rows, provenance), encoding="utf-8")


def training_beside_hugging_face(corpus: str, repeats: int) -> Iterator[Row]:
    """Given GPT-2's order of the bytes, the Rust trainer and ours must find equal merges."""
    for vocab_size in (1024, 4096):
        timings, trained = measure(
            {
                OURS: lambda size=vocab_size: BytePairTokenizer.train(
                    corpus, size, byte_order=GPT2_BYTE_ORDER
                ),
                "tokenizers": lambda size=vocab_size: train_hugging_face(corpus, size),
            },
            repeats=repeats,
        )
        assert trained[OURS].merges == hugging_face_merges(trained["tokenizers"])
        yield from compare("train", corpus, vocab_size, timings)


def train_hugging_face(corpus: str, vocab_size: int) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = byte_level
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size
        - 1,  # our special token is the last; theirs would be the first
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([corpus], trainer)
    return tokenizer


def hugging_face_merges(tokenizer: tokenizers.Tokenizer) -> list[tuple[int, int]]:
    ids = tokenizer.get_vocab()
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [(ids[left], ids[right]) for left, right in merges]


def encoding_beside_tiktoken(corpus: str, repeats: int) -> Iterator[Row]:
    """The bulk path, the definition in Python, and tiktoken alone on the same merges."""
    trained = BytePairTokenizer.train(corpus, 4096)
    encoding = trained.to_tiktoken()
    timings, ids = measure(
        {
            f"{OURS}, encode_batch": lambda: trained.encode_batch([corpus])[0],
            f"{OURS}, encode": lambda: forgetful(trained).encode(corpus),
            "tiktoken": lambda: encoding.encode_ordinary(corpus),
        },
        repeats=repeats,
    )
    assert all(found == ids["tiktoken"] for found in ids.values())
    for row in compare("encode", corpus, 4096, timings):
        speed = len(corpus.encode()) / 1e6 / row["wall"]["median"]
        yield row | {"megabytes_per_second": round(speed, 2)}


def forgetful(tokenizer: BytePairTokenizer) -> BytePairTokenizer:
    """The same tokenizer without memory of the words that it has already encoded."""
    tokenizer._ids_of_words.clear()
    return tokenizer


def training_beside_minbpe(corpus: str, folder: Path, repeats: int) -> Iterator[Row]:
    """Like for like: with GPT-2's words, and with the whole text as one word.

    minbpe breaks ties by first occurrence, so that a few tokens may differ; `shared_tokens` counts
    those that both find.
    """
    sys.path.insert(0, str(folder))
    from minbpe import BasicTokenizer, RegexTokenizer

    for name, pattern, peer in (
        ("RegexTokenizer", GPT2_PATTERN, RegexTokenizer(GPT2_PATTERN)),
        ("BasicTokenizer", ONE_WORD, BasicTokenizer()),
    ):
        words = "GPT-2's words" if pattern is GPT2_PATTERN else "one word"
        ours, trained = measure(
            {
                f"{OURS}, {words}": lambda pattern=pattern: BytePairTokenizer.train(
                    corpus, 512, (), pattern=pattern
                )
            },
            repeats=repeats,
        )
        theirs, _ = measure(
            {f"minbpe {name}, {words}": lambda peer=peer: peer.train(corpus, 512)}
        )
        (tokenizer,) = trained.values()
        tokens = {tokenizer.token_bytes(id) for id in range(512)}
        shared = len(tokens & set(peer.vocab.values()))
        for row in compare("train", corpus, 512, ours | theirs):
            yield row | {"shared_tokens": shared}


def compare(
    task: str, corpus: str, vocab_size: int, timings: dict[str, Row]
) -> Iterator[Row]:
    """One row for each timing, with the ratio to ours, which is the first."""
    ours = next(iter(timings.values()))
    for name, timing in timings.items():
        ratio = {
            clock: round(timing[clock]["median"] / ours[clock]["median"], 2)
            for clock in ("wall", "cpu")
        }
        print(
            f"{task + ' ' + name:46} V={vocab_size:<5} {timing['wall']['median']:8.3f} "
            f"{timing['cpu']['median']:8.3f}     x{ratio['wall']:<8} x{ratio['cpu']}",
            flush=True,
        )
        size = {"characters": len(corpus), "vocab_size": vocab_size}
        yield {"task": task, "name": name} | size | timing | {"times_ours": ratio}


def table(rows: list[Row], provenance: Row) -> str:
    """The results as Markdown."""
    lines = [
        "| | V | seconds (fastest to slowest) | processor seconds | times ours |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        wall, cpu, ratio = row["wall"], row["cpu"], row["times_ours"]["cpu"]
        spread = (
            f" ({wall['min']:.2f} to {wall['max']:.2f})" if wall["repeats"] > 1 else ""
        )
        lines.append(
            f"| {row['task']}: {row['name']} | {row['vocab_size']} | {wall['median']:.2f}{spread} "
            f"| {cpu['median']:.2f} | {ratio:.2f} |"
        )
    about = (
        f"{provenance['date'][:10]}, {provenance['processor']}, {provenance['cores']} cores, load "
        f'{provenance["load"]}, Python {provenance["python"]}. Medians; "times ours" compares '
        "processor seconds with the row of ours above it."
    )
    return "\n".join([*lines, "", about, ""])


if __name__ == "__main__":
    tyro.cli(main)
