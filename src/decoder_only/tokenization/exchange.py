"""A tokenizer in the file format of the library `tokenizers`, which published models use.

    {"model": {"type": "BPE", "vocab": {"!": 0, ...}, "merges": [["Ġ", "t"], ...]}, ...}

Chapter 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decoder_only.tokenization.merges import GPT2_BYTE_ORDER
from decoder_only.tokenization.pretokens import GPT2_PATTERN

if TYPE_CHECKING:
    from decoder_only.tokenization.tokenizer import BytePairTokenizer

# GPT-2's files write the byte of each id as a letter: itself if it prints, else one after U+00FF.
LETTERS = [chr(x if i < 188 else 68 + i) for i, x in enumerate(GPT2_BYTE_ORDER)]
LETTER_OF = dict(zip(GPT2_BYTE_ORDER, LETTERS, strict=True))
BYTE_OF = dict(zip(LETTERS, GPT2_BYTE_ORDER, strict=True))
# Text is cut by GPT-2's pattern, and not changed.
CUT = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}


def to_tokenizers(tokenizer: BytePairTokenizer) -> dict[str, Any]:
    """The content of tokenizer.json for the library `tokenizers`.

    Raises:
        ValueError: the tokenizer has a pattern of its own.
    """
    if tokenizer.pattern != GPT2_PATTERN:
        raise ValueError(f"pattern={tokenizer.pattern!r:.200} must be GPT-2's")
    special = tokenizer.special_tokens
    ordinary = map(tokenizer.token_bytes, range(tokenizer.vocab_size - len(special)))
    shown = ["".join(map(LETTER_OF.get, token)) for token in ordinary]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    flags["special"] = True
    added = [{"id": id, "content": token} | flags for token, id in special.items()]
    cut = CUT | {"trim_offsets": True}
    model = {"type": "BPE", "vocab": {token: id for id, token in enumerate(shown)}}
    model["merges"] = [[shown[left], shown[right]] for left, right in tokenizer.merges]
    content = {"version": "1.0", "added_tokens": added, "model": model}
    return content | {"pre_tokenizer": cut, "decoder": cut}


def from_tokenizers(content: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `to_tokenizers`: the arguments of `BytePairTokenizer`.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: the file holds another kind of
            tokenizer.
    """
    model, cut = content["model"], {"use_regex": True, **content["pre_tokenizer"]}
    is_bpe = model.get("type", "BPE") == "BPE" and content.get("normalizer") is None
    if not is_bpe or cut | CUT != cut:
        raise ValueError("type, normalizer and pre_tokenizer must be GPT-2's")
    added = sorted((each["id"], each["content"]) for each in content["added_tokens"])
    names = {name for _, name in added}
    ids = {token: id for token, id in model["vocab"].items() if token not in names}
    tokens = sorted(ids, key=ids.get)
    every = [*map(ids.get, tokens), *(id for id, _ in added)]
    merges = [x.split(" ") if type(x) is str else x for x in model["merges"]]
    if [*map("".join, merges)] != tokens[256:] or every != [*range(len(every))]:
        raise ValueError("ids are not bytes, merges and special tokens, in order")
    return {
        "merges": [(ids[left], ids[right]) for left, right in merges],
        "special_tokens": [name for _, name in added],
        "byte_order": bytes(BYTE_OF[token] for token in tokens[:256]),
    }
