"""The tokenizer against a naive reference, Hugging Face's trainer, tiktoken, and bad input."""

import importlib
import json
import os
import random
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import regex
import tiktoken
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder_only.tokenization import (
    GPT2_BYTE_ORDER,
    GPT2_PATTERN,
    BytePairTokenizer,
    count_pairs,
    count_pretokens,
    gpt2_tokenizer,
    learn_merges,
    pretokenize,
    pretokens,
    spell,
)
from decoder_only.tokenization import tokenizer as tokenizer_file

END = "<|endoftext|>"
FORMAT = "decoder-only byte-pair tokenizer"

SAMPLE = """\
The lighthouse keeper kept two lamps, one lit and one waiting. Each night she climbed the 99 steps,
lit the lamp, and counted the ships that passed: three, seven, sometimes none at all.
"It's quiet," she'd say, "but they'll come; they've always come." In the year 1899 a storm took
the roof, the rain barrels and 12 of the 40 panes, and still the light went round and round.
Morgens zählte sie Möwen über der Brücke. Le matin, elle préférait le thé à la fenêtre.
Утром она считала чаек. 朝、彼女はカモメを数えた。 الصباح هادئ. 🙂🙂 naïve café, 3.14159 ≈ π.
\tThe keeper's lamp; the keeper's steps; the keeper's ships.\n\n   The end of the light.\r\n
"""

needs_shakespeare = pytest.mark.skipif(
    not Path(os.environ.get("DECODER_ONLY_DATA", ""), "tinyshakespeare.txt").is_file(),
    reason="DECODER_ONLY_DATA names no folder with tinyshakespeare.txt",
)
needs_gpt2 = pytest.mark.skipif(
    # the name under which tiktoken keeps GPT-2's vocab.bpe: the SHA-1 of its address
    not Path(
        os.environ.get("TIKTOKEN_CACHE_DIR", ""),
        "6d1cbeee0f20b3d9449abfede4726ed8212e3aee",
    ).is_file(),
    reason="TIKTOKEN_CACHE_DIR names no folder with GPT-2's vocabulary",
)


def shakespeare() -> str:
    return Path(os.environ["DECODER_ONLY_DATA"], "tinyshakespeare.txt").read_text(
        encoding="utf-8"
    )


@pytest.fixture(scope="module")
def tokenizer() -> BytePairTokenizer:
    return BytePairTokenizer.train(SAMPLE, 480)


@pytest.fixture(scope="module")
def bytes_only() -> BytePairTokenizer:
    return BytePairTokenizer.train(SAMPLE, 257)


@pytest.fixture(scope="module")
def one_word() -> BytePairTokenizer:
    """Merges that reach across what the pattern would cut."""
    return BytePairTokenizer(learn_merges({spell(SAMPLE): 1}, 100))


@pytest.fixture(scope="module")
def gpt2(unchecked):
    return unchecked.gpt2_tokenizer()


@pytest.fixture(scope="module")
def unchecked():
    """The package as its users run it: without the type checker, which would speak first."""
    name = "decoder_only.tokenization"
    checked = {n: m for n, m in sys.modules.items() if n.startswith(name)}
    with pytest.MonkeyPatch.context() as patch:
        hooks = [hook for hook in sys.meta_path if "jaxtyping" in repr(type(hook))]
        patch.setattr(sys, "meta_path", [h for h in sys.meta_path if h not in hooks])
        for module in checked:
            patch.delitem(sys.modules, module)
        found = importlib.import_module(name)
        found.pretokens = sys.modules[f"{name}.pretokens"]
        for module in checked:
            del sys.modules[module]
    return found


# Text that is likely to upset a tokenizer, and text of any characters at all.
awkward = [
    *" \n\t\r\x0b\x1c\x85\xa0\u2028\u3000'’.-_1٣½一éßſ🙂\x00\u0301\ufdd0\U0010ffff",
    *[
        "the",
        " the",
        "The keeper's",
        "lamps",
        "'s",
        "'S",
        "'ll",
        "'re",
        " '",
        "   ",
        "\r\n",
        "12",
    ],
    *["👩‍👩‍👧", "नमस्ते", "カモメ", "a" * 40, END, "<|", "endoftext", "|>"],
]
texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(awkward), max_size=30).map("".join),
    st.lists(st.one_of(st.sampled_from(awkward), st.text(max_size=3)), max_size=30).map(
        "".join
    ),
)


# --------------------------------------------------------------------------------------------------
# Training
# --------------------------------------------------------------------------------------------------


def naive_merges(word_counts, n_merges):
    """The definition: count every pair anew, merge the most frequent, start again."""
    words = [
        ([ord(token) for token in word], count) for word, count in word_counts.items()
    ]
    merges = []
    while len(merges) < n_merges:
        counts = Counter()
        for ids, count in words:
            for pair in pairwise(ids):
                counts[pair] += count
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        words = [
            (naive_replace(ids, best, 255 + len(merges)), count) for ids, count in words
        ]
    return merges


def naive_replace(ids, pair, new):
    out, at = [], 0
    while at < len(ids):
        found = tuple(ids[at : at + 2]) == pair
        out.append(new if found else ids[at])
        at += 2 if found else 1
    return out


@given(
    st.dictionaries(
        st.text("ab", min_size=1, max_size=12), st.integers(1, 5), max_size=6
    )
    | st.dictionaries(
        st.text("abcd", min_size=1, max_size=40), st.integers(1, 3), max_size=8
    )
    | st.dictionaries(
        st.text(st.characters(max_codepoint=255), max_size=8), st.integers(1, 9)
    ),
    st.integers(0, 40),
)
@settings(max_examples=500)
def test_merges_equal_the_naive_reference(word_counts, n_merges):
    # Few letters and small counts: overlaps like "aaaa" and ties are in nearly every example.
    assert learn_merges(word_counts, n_merges) == naive_merges(word_counts, n_merges)


@given(st.lists(texts, max_size=6), st.integers(257, 300))
def test_training_equals_the_naive_reference_from_text_to_merges(documents, vocab_size):
    words = {
        spell(w): n
        for w, n in Counter(w for d in documents for w in pretokenize(d)).items()
    }
    expected = naive_merges(words, vocab_size - 257)
    if not any(documents) or len(expected) < vocab_size - 257:
        with pytest.raises(
            ValueError, match=r"no text to train on|this text fills only"
        ):
            BytePairTokenizer.train(documents, vocab_size)
    else:
        assert BytePairTokenizer.train(documents, vocab_size).merges == expected


def test_by_hand():
    # ug occurs three times and h|ug twice. Then all counts are one, and the smallest ids come
    # first: a space is id 32, and b, id 98, is smaller than hug, id 257.
    tokenizer = BytePairTokenizer.train("hug hugs bug", 256 + 4 + 1)
    assert [tokenizer.token_bytes(256 + i) for i in range(4)] == [
        b"ug",
        b"hug",
        b" b",
        b" hug",
    ]
    assert tokenizer.merges == [(117, 103), (104, 256), (32, 98), (32, 257)]
    assert tokenizer.special_tokens == {END: 260}
    assert tokenizer.vocab_size == 261


def test_overlapping_pairs_count_twice_and_merge_once():
    assert count_pairs({"aaa": 1, "aab": 2}) == {"aa": 4, "ab": 2}
    # aaaa holds (a, a) three times, and two merges of it; then the two new tokens merge.
    assert learn_merges({"aaaa": 1}, 9) == [(97, 97), (256, 256)]
    assert learn_merges({"aaaaa": 1}, 9) == [(97, 97), (256, 97), (256, 257)]


def test_ties_go_to_the_smallest_ids():
    assert learn_merges({"cd": 2, "ab": 2, "ac": 2}, 3) == [
        (97, 98),
        (97, 99),
        (99, 100),
    ]


def test_order_of_documents_does_not_matter():
    lines = SAMPLE.splitlines(keepends=True) * 2
    merges = BytePairTokenizer.train(lines, 400).merges
    random.Random(0).shuffle(lines)
    assert BytePairTokenizer.train(iter(lines), 400).merges == merges


def test_one_string_and_a_stream_of_one_document_are_the_same():
    stream = (document for document in [SAMPLE])
    assert BytePairTokenizer.train(stream, 400) == BytePairTokenizer.train(SAMPLE, 400)


def test_documents_are_read_one_at_a_time():
    alive = []

    class Document(str):
        def __del__(self):
            alive.pop()

    def documents():
        for number in range(50):
            alive.append(number)
            yield Document(f"document number {number}")
            assert len(alive) <= 2

    assert BytePairTokenizer.train(documents(), 270).vocab_size == 270


def test_no_word_reaches_across_documents():
    tokenizer = BytePairTokenizer.train(["ab", "cd"], 259)
    assert [tokenizer.token_bytes(256 + i) for i in range(2)] == [b"ab", b"cd"]
    with pytest.raises(ValueError, match="fills only 259 tokens"):
        BytePairTokenizer.train(["ab", "cd"], 260)


def test_special_tokens_in_the_training_text_are_text():
    with_markers = BytePairTokenizer.train(f"aa{END}aa", 260)
    assert with_markers.merges == BytePairTokenizer.train(f"aa{END}aa", 259, ()).merges


@pytest.mark.parametrize("vocab_size", [300, 420])
def test_merges_equal_those_of_hugging_face(vocab_size):
    assert_equal_to_hugging_face(BytePairTokenizer, SAMPLE, vocab_size)


@needs_shakespeare
def test_merges_equal_those_of_hugging_face_on_shakespeare(unchecked):
    """A third of it: from line to line, ties and new words are of the same kinds."""
    text = shakespeare()
    text = text[: len(text) // 3]
    assert_equal_to_hugging_face(unchecked.BytePairTokenizer, text, 4096)


def assert_equal_to_hugging_face(our_class, text, vocab_size):
    """Its Rust trainer numbers the bytes as GPT-2 does, and breaks ties by id as we do."""
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.pre_tokenizer = byte_level
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size - 1,
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    theirs.train_from_iterator([text], trainer)
    ids = theirs.get_vocab()
    expected = [
        (ids[x], ids[y]) for x, y in json.loads(theirs.to_str())["model"]["merges"]
    ]
    ours = our_class.train(text, vocab_size, byte_order=GPT2_BYTE_ORDER)
    assert ours.merges == expected
    assert ours.encode(text) == theirs.encode(text).ids


def test_ids_in_the_range_of_surrogates_are_ids_like_any_other(unchecked):
    # Tokens 0xD800 to 0xDFFF are, as Python characters, lone surrogates. That must not matter.
    seconds = [
        *range(128, 256),
        *range(87),
        *b"abcdefgh",
    ]  # the last eight give those 2048 ids
    tokenizer = unchecked.BytePairTokenizer(
        [(x, y) for y in seconds for x in range(256)]
    )
    text = "a headache had faded"
    ids = tokenizer.encode(text)
    assert sum(0xD800 <= id < 0xE000 for id in ids) == 7
    assert ids == tokenizer.to_tiktoken().encode_ordinary(text)
    assert tokenizer.decode(ids) == text


# --------------------------------------------------------------------------------------------------
# Words
# --------------------------------------------------------------------------------------------------


def test_words_by_hand():
    text = "She'll pay  $12.50,\n\nisn't it? "
    expected = [
        "She",
        "'ll",
        " pay",
        " ",
        " $",
        "12",
        ".",
        "50",
        ",",
        "\n",
        "\n",
        "isn",
        "'t",
    ]
    assert list(pretokenize(text)) == [*expected, " it", "?", " "]


@given(texts)
def test_words_are_those_of_gpt2s_original_pattern(text):
    original = (
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    )
    stand_in = pretokens._as_tiktoken_reads(text)
    ours = [len(word) for word in pretokenize(text)]
    assert ours == [len(word) for word in regex.findall(original, stand_in)]
    assert "".join(pretokenize(text)) == text


def test_counts_of_words():
    assert count_pretokens(["a cat a cat", "a cat"]) == {"a": 2, " cat": 3, " a": 1}


def test_a_pattern_that_leaves_text_out_is_refused():
    with pytest.raises(ValueError, match="does not match ' b' at character 1"):
        list(pretokenize("a b", r"\p{L}+"))
    with pytest.raises(ValueError, match="does not match '!' at character 2"):
        BytePairTokenizer.train("ab!", 258, pattern=r"\p{L}+")
    with pytest.raises(ValueError, match="cannot work: missing"):
        BytePairTokenizer.train("ab", 258, pattern="(")


def test_bulk_encoding_refuses_what_the_pattern_leaves_out():
    tokenizer = BytePairTokenizer([], special_tokens=[END], pattern=r"[a-zé]+")
    assert tokenizer.encode_batch([f"é{END}b", "ab"], "all")[1] == [97, 98]
    wanted = "document 1='ab 12 cd' must be matched whole by the pattern"
    with pytest.raises(ValueError, match=wanted):
        tokenizer.encode_batch(["ab", "ab 12 cd"])


@pytest.mark.parametrize("pattern", [r"\b|.|\n", "[a-z]*", r"(?=\d)|(?s:.)", ""])
def test_a_pattern_that_matches_nothing_is_refused(pattern):
    with pytest.raises(ValueError, match="must be one that never matches nothing"):
        BytePairTokenizer([], pattern=pattern)


def test_without_a_pattern_words_glue_together():
    glued = BytePairTokenizer.train(
        "a dog, a dog, a dog, a dog", 264, pattern=r"(?s).+"
    )
    assert b", a dog" in [glued.token_bytes(id) for id in range(256, 263)]
    assert glued.decode(glued.encode("a dog, a cat\n")) == "a dog, a cat\n"


def test_a_line_of_one_character_does_not_spoil_a_text(unchecked):
    """A word of 50,000 bytes, of which each merge would double a token."""
    text = "".join(each * 50_000 + "x\n" for each in "-0 \n=日") + "so it goes. " * 9
    tokenizer = BytePairTokenizer.train(text, 400, at_most=True)
    longest = max(map(len, map(tokenizer.token_bytes, range(tokenizer.vocab_size))))
    assert 100 < longest <= 1024
    assert tokenizer.decode(tokenizer.encode_batch([text])[0]) == text


def test_long_words_take_no_long_time(tokenizer, unchecked):
    for text in ["a" * 100_000, " " * 100_000 + "x", "lamp" * 20_000, "\n" * 100_000]:
        assert tokenizer.encode(text) == tokenizer.to_tiktoken().encode_ordinary(text)
    dna = "".join(random.Random(0).choices("ACGT", k=100_000))
    assert unchecked.BytePairTokenizer.train(dna, 512).vocab_size == 512


# --------------------------------------------------------------------------------------------------
# Encoding
# --------------------------------------------------------------------------------------------------


@given(text=texts)  # fewer, since the next test tries the same with other merges
def test_encoding_equals_tiktoken(tokenizer, bytes_only, text):
    for ours in (tokenizer, bytes_only):
        assert ours.encode(text) == ours.to_tiktoken().encode_ordinary(text)
        assert ours.decode(ours.encode(text)) == text


@given(training=st.lists(texts, min_size=1, max_size=4), text=texts, data=st.data())
def test_encoding_equals_tiktoken_for_any_trained_merges(training, text, data):
    words = {spell(word): count for word, count in count_pretokens(training).items()}
    merges = learn_merges(words, data.draw(st.integers(0, 60)))
    ours = BytePairTokenizer(merges)
    for sample in [text, *training]:
        assert ours.encode(sample) == ours.to_tiktoken().encode_ordinary(sample)


@needs_gpt2
@given(text=texts)
def test_encoding_equals_gpt2(gpt2, text):
    assert gpt2.encode(text) == tiktoken.get_encoding("gpt2").encode_ordinary(text)
    assert gpt2.decode(gpt2.encode(text)) == text


@needs_gpt2
def test_gpt2(gpt2):
    theirs = tiktoken.get_encoding("gpt2")
    assert gpt2.encode("Bobby likes blackberries.") == [
        33,
        11369,
        7832,
        2042,
        20853,
        13,
    ]
    assert gpt2.vocab_size == 50257
    assert gpt2.special_tokens == {END: 50256}
    assert len(gpt2.merges) == 50000
    # The first lines of GPT-2's file of merges: " t", " a", "he", "in", "re".
    first = [
        gpt2.token_bytes(x) + b"|" + gpt2.token_bytes(y) for x, y in gpt2.merges[:5]
    ]
    assert first == [b" |t", b" |a", b"h|e", b"i|n", b"r|e"]
    assert [gpt2.token_bytes(i) for i in range(50257)] == theirs.decode_tokens_bytes(
        range(50257)
    )
    assert gpt2.encode(SAMPLE * 20) == gpt2.encode_batch([SAMPLE * 20])[0]


@needs_gpt2
def test_gpt2_saved_and_loaded(unchecked, gpt2, tmp_path):
    gpt2.save(tmp_path / "gpt2.json")  # tokens were recovered; a file lists pairs
    assert unchecked.BytePairTokenizer.load(tmp_path / "gpt2.json") == gpt2


def test_gpt2_neither_found_nor_fetched(monkeypatch, tmp_path):
    import requests

    def no_network(*args, **kwargs):
        raise requests.ConnectionError("no network")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(requests, "get", no_network)
    monkeypatch.delitem(tiktoken.registry.ENCODINGS, "gpt2", raising=False)
    with pytest.raises(
        FileNotFoundError, match=r"TIKTOKEN_CACHE_DIR .*BytePairTokenizer\.train"
    ):
        gpt2_tokenizer()


def test_characters_that_the_two_regex_engines_class_differently(unchecked):
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]))
    contested = set()
    for category in "LN":
        by_regex, by_tiktoken = unchecked.pretokens._members(category, every)
        contested |= by_regex ^ by_tiktoken
    # Each between a letter and a number, and some of them in all company.
    text = "".join(f"a{c}1" for c in sorted(contested)) + "Ω 7"
    text += "".join(f"a{c} {c}1{c}{c}'s{c}!" for c in sorted(contested)[::20])
    tokenizer = unchecked.BytePairTokenizer.train(text, 300)
    assert tokenizer.encode(text) == tokenizer.to_tiktoken().encode_ordinary(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(("theirs", "stand_in"), [("L", "一"), ("N", "²")])
def test_a_regex_engine_that_is_older_than_tiktoken(monkeypatch, theirs, stand_in):
    # As if `regex` had never heard of the letter "é" and tiktoken took it for `theirs`.
    members = {"L": (set("abc"), set("abc")), "N": (set(), set())}
    members[theirs] = (members[theirs][0], members[theirs][1] | {"é"})
    monkeypatch.setattr(pretokens, "_members", lambda category, _: members[category])
    assert pretokens._as_tiktoken_reads("abcé") == f"abc{stand_in}"


@given(data=st.binary(max_size=200) | texts.map(str.encode))
def test_round_trip_of_any_bytes(one_word, data):
    tokenizer = one_word
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data


@given(text=texts)
def test_bytes_of_text_have_the_ids_of_the_text(tokenizer, text):
    assert tokenizer.encode_bytes(text.encode()) == tokenizer.encode(text)


def test_every_byte_alone(tokenizer):
    for byte in range(256):
        assert tokenizer.encode_bytes(bytes([byte])) == [byte]
        assert tokenizer.token_bytes(byte) == bytes([byte])


@given(documents=st.lists(texts, max_size=5))
def test_bulk_encoding_equals_encoding(one_word, documents):
    tokenizer = one_word
    assert tokenizer.encode_batch(documents) == [
        tokenizer.encode(text) for text in documents
    ]
    assert tokenizer.encode_batch(iter(documents), "all") == [
        tokenizer.encode(text, "all") for text in documents
    ]


def test_empty_text(tokenizer):
    assert tokenizer.encode("") == []
    assert tokenizer.encode_bytes(b"") == []
    assert tokenizer.encode_batch([]) == []
    assert tokenizer.encode_batch([""]) == [[]]
    assert tokenizer.decode([]) == ""


def test_ids_that_are_returned_belong_to_the_caller(tokenizer):
    tokenizer.encode("lamp").append(0)
    tokenizer.encode_bytes(b"lamp").append(0)
    tokenizer.special_tokens.clear()
    tokenizer.merges.clear()
    assert tokenizer.decode(tokenizer.encode("lamp")) == "lamp"
    assert tokenizer.special_tokens
    assert tokenizer.merges


def test_one_word_being_merged(tokenizer):
    steps = [
        [tokenizer.token_bytes(id).decode() for id in ids]
        for ids in tokenizer.merge_steps(" keeper")
    ]
    assert steps[0] == [" ", "k", "e", "e", "p", "e", "r"]
    assert all("".join(step) == " keeper" for step in steps)
    assert all(len(after) < len(before) for before, after in pairwise(steps))
    assert list(tokenizer.merge_steps(" keeper"))[-1] == tokenizer.encode(" keeper")
    with pytest.raises(
        ValueError, match=r"takes one word, but 'two words' .* \['two', ' words'\]"
    ):
        list(tokenizer.merge_steps("two words"))
    with pytest.raises(ValueError, match="takes one word, but ''"):
        list(tokenizer.merge_steps(""))


# --------------------------------------------------------------------------------------------------
# Special tokens
# --------------------------------------------------------------------------------------------------


def test_special_tokens_are_text_unless_allowed(tokenizer):
    text = f"one{END}two"
    end = tokenizer.special_tokens[END]
    assert end == tokenizer.vocab_size - 1
    assert end not in tokenizer.encode(text)
    assert tokenizer.encode_batch([text]) == [tokenizer.encode(text)]
    expected = [*tokenizer.encode("one"), end, *tokenizer.encode("two")]
    assert tokenizer.encode(text, "all") == expected
    assert tokenizer.encode(text, {END}) == expected
    assert tokenizer.encode_batch([text], {END}) == [expected]
    assert tokenizer.decode(expected) == text


@given(
    st.lists(st.sampled_from(["<a>", "<b>", "b>", "<", "a", "  ", "\n", "x"])).map(
        "".join
    )
)
def test_special_tokens_equal_tiktoken(text):
    tokenizer = BytePairTokenizer([(97, 98)], special_tokens=["<b>", "<a>", "b>"])
    theirs = tokenizer.to_tiktoken()
    for allowed in (set(), {"<a>"}, {"b>"}, {"<a>", "b>"}, {"<a>", "<b>", "b>"}):
        ids = tokenizer.encode(text, allowed)
        assert ids == theirs.encode(
            text, allowed_special=allowed, disallowed_special=()
        )
        assert tokenizer.decode(ids) == text


def test_special_tokens_have_the_highest_ids_in_their_order():
    tokenizer = BytePairTokenizer.train(SAMPLE, 300, ["<user>", "<bot>", END])
    assert tokenizer.special_tokens == {"<user>": 297, "<bot>": 298, END: 299}
    none = BytePairTokenizer.train(SAMPLE, 256, ())
    assert (none.vocab_size, none.special_tokens, none.merges) == (256, {}, [])
    assert none.encode("lamp") == list(b"lamp")


# --------------------------------------------------------------------------------------------------
# Decoding
# --------------------------------------------------------------------------------------------------


def test_ids_in_every_container(tokenizer):
    ids = tokenizer.encode("The keeper's lamp")
    for same in (
        tuple(ids),
        iter(ids),
        np.array(ids),
        np.array(ids, dtype=np.uint16),
        list(np.array(ids)),
        torch.tensor(ids),
        list(torch.tensor(ids, dtype=torch.int32)),
    ):
        assert tokenizer.decode(same) == "The keeper's lamp"


def test_an_incomplete_character(tokenizer):
    ids = tokenizer.encode_bytes("é".encode()[:1])
    assert tokenizer.decode(ids) == "\ufffd"
    assert tokenizer.decode(ids, errors="ignore") == ""
    assert tokenizer.decode_bytes(ids) == b"\xc3"
    with pytest.raises(UnicodeDecodeError):
        tokenizer.decode(ids, errors="strict")


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([1, 480], ValueError, r"ids\[1\] is 480, .* integers from 0 to 479"),
        ([-1], ValueError, r"ids\[0\] is -1"),
        (np.array([3, 2**40]), ValueError, r"ids\[1\] is 1099511627776"),
        ([1.0], ValueError, r"ids\[0\] is 1.0, a float; ids must be integers"),
        ([True], ValueError, r"ids\[0\] is True, a bool"),
        ([None], ValueError, r"ids\[0\] is None"),
        (["a"], ValueError, r"ids\[0\] is 'a', a str"),
        (torch.tensor([1.0, 2.0]), ValueError, r"ids\[0\] is 1.0, a float"),
        (torch.tensor([True]), ValueError, r"ids\[0\] is True, a bool"),
        ([np.bool_(True)], ValueError, r"ids\[0\] is True, a bool"),
        (
            torch.tensor([[1, 2], [3, 4]]),
            ValueError,
            r"is \[1, 2\], a list; .* row by row",
        ),
        (
            torch.tensor(5),
            TypeError,
            r"must be a sequence of integers, not tensor\(5\)",
        ),
        (5, TypeError, "must be a sequence of integers, not 5"),
        ("lamp", TypeError, "must be a sequence of integers, not 'lamp'"),
        (b"lamp", TypeError, "must be a sequence of integers, not b'lamp'"),
    ],
)
def test_invalid_ids(unchecked, ids, error, message):
    tokenizer = unchecked.BytePairTokenizer.train(SAMPLE, 480)
    for method in (tokenizer.decode, tokenizer.decode_bytes):
        with pytest.raises(error, match=message):
            method(ids)


def test_invalid_token(unchecked):
    tokenizer = unchecked.BytePairTokenizer([])
    for id in (-1, 257):
        with pytest.raises(ValueError, match=rf"ids\[0\] is {id}, a int; .* to 256"):
            tokenizer.token_bytes(id)
    with pytest.raises(ValueError, match="must be integers"):
        tokenizer.token_bytes(1.5)


# --------------------------------------------------------------------------------------------------
# Bad input
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", [], ["", ""], iter([])])
def test_no_text(text):
    with pytest.raises(ValueError, match="there is no text to train on"):
        BytePairTokenizer.train(text, 300)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            b"bytes",
            TypeError,
            r"must be a str or an iterable of str, got b'bytes', a bytes",
        ),
        (5, TypeError, "must be a str or an iterable of str, got 5, a int"),
        (
            ["fine", b"bytes"],
            TypeError,
            "document 1 must be a str, got b'bytes', a bytes",
        ),
        (["fine", None], TypeError, "document 1 must be a str, got None"),
        (
            "a\ud800",
            ValueError,
            r"has a lone surrogate, U\+D800, at character 1",
        ),
        (["fine", "\udfff"], ValueError, r"document 1 has a lone surrogate, U\+DFFF"),
    ],
)
def test_text_that_is_no_text(unchecked, text, error, message):
    with pytest.raises(error, match=message):
        unchecked.BytePairTokenizer.train(text, 257)
    tokenizer = unchecked.BytePairTokenizer([])
    encode = tokenizer.encode if isinstance(text, str) else tokenizer.encode_batch
    with pytest.raises(error, match=message):
        encode(text)


def test_one_string_is_one_document(tokenizer):
    assert tokenizer.encode_batch("a lamp") == [tokenizer.encode("a lamp")]


@pytest.mark.parametrize("text", [b"bytes", None, 5, ["a"]])
def test_encode_takes_a_string(unchecked, text):
    with pytest.raises(TypeError, match="the text must be a str, got"):
        unchecked.BytePairTokenizer([]).encode(text)


@pytest.mark.parametrize(
    ("vocab_size", "error", "message"),
    [
        (256, ValueError, "vocab_size=256 must be a whole number, at least 257"),
        (0, ValueError, "at least 257"),
        (-5, ValueError, "vocab_size=-5"),
        (2**21, ValueError, "at most 1114112"),
        (300.0, ValueError, "vocab_size=300.0 .* a whole number"),
        (True, ValueError, "vocab_size=True .* a whole number"),
        ("300", ValueError, "vocab_size='300' .* a whole number"),
    ],
)
def test_vocabulary_sizes_that_cannot_be(unchecked, vocab_size, error, message):
    with pytest.raises(error, match=message):
        unchecked.BytePairTokenizer.train(SAMPLE, vocab_size)


def test_a_vocabulary_that_the_text_cannot_fill():
    message = r"vocab_size is 1000, but this text fills only 259 tokens \(256 bytes, 2 merges, 1 sp"
    with pytest.raises(ValueError, match=message):
        BytePairTokenizer.train("abc abc"[:3], 1000)
    full = BytePairTokenizer.train("abc", 259)
    assert len(full.encode("abc")) == 1
    assert BytePairTokenizer.train("abc", 1000, at_most=True) == full
    enough = BytePairTokenizer.train(SAMPLE, 400, at_most=True)
    assert enough == BytePairTokenizer.train(SAMPLE, 400)


def test_bad_input_is_refused_before_the_text_is_read():
    def never():
        raise AssertionError("the text was read")
        yield ""

    with pytest.raises(ValueError, match="at least 257"):
        BytePairTokenizer.train(never(), 100)
    with pytest.raises(ValueError, match="none empty"):
        BytePairTokenizer.train(never(), 300, [""])
    with pytest.raises(ValueError, match="each of the 256 bytes"):
        BytePairTokenizer.train(never(), 300, byte_order=b"abc")


@pytest.mark.parametrize(
    "special_tokens",
    [
        [""],
        ["<a>", "<b>", "<a>"],
        ["<a>", "<a>b"],
        ["<a>b", "<c>", "<a>"],
        ["\ud800"],
        [5],
        ["<a>", 5],
        END,
        {"<a>", "<b>"},
        None,
        [f"<{i}>" for i in range(1001)],
    ],
)
def test_special_tokens_that_cannot_be(unchecked, special_tokens):
    message = "special_tokens=.* up to 1,000 strings, none empty or the beginning"
    with pytest.raises(ValueError, match=message):
        unchecked.BytePairTokenizer.train(SAMPLE, 300, special_tokens)
    with pytest.raises(ValueError, match=message):
        unchecked.BytePairTokenizer([], special_tokens=special_tokens)


@pytest.mark.parametrize(
    ("allowed", "error", "message"),
    [
        ({"<unknown>"}, ValueError, r"{'<unknown>'} must be 'all' or a set of these"),
        ("none", ValueError, "'none' must be 'all' or a set"),
        (END, ValueError, r"endoftext.* must be 'all' or a set"),
    ],
)
def test_allowed_special_tokens_that_cannot_be(tokenizer, allowed, error, message):
    with pytest.raises(error, match=message):
        tokenizer.encode("text", allowed)
    with pytest.raises(error, match=message):
        tokenizer.encode_batch(["text"], allowed)


@pytest.mark.parametrize(
    ("merges", "message"),
    [
        ([(97, 256)], "merge 0 joins the ids 97 and 256; it may use ids 0 to 255"),
        ([(97, 98), (-1, 97)], "merge 1 joins the ids -1 and 97"),
        ([(97, 98), (97, 98)], "earlier merges leave 1 tokens of b'ab', not two"),
        # "abc" is always split as ab|c, since (a, b) comes first.
        (
            [(97, 98), (98, 99), (97, 257)],
            r"joins the ids 97 and 257 into b'abc', but earlier",
        ),
        # "aaa" is always split as aa|a.
        ([(97, 97), (97, 256)], "joins the ids 97 and 256 into b'aaa', but earlier"),
    ],
)
def test_merges_that_no_training_finds(merges, message):
    with pytest.raises(ValueError, match=message):
        BytePairTokenizer(merges)


def test_byte_orders_that_cannot_be():
    for byte_order in (b"", bytes(256), bytes(range(255))):
        with pytest.raises(ValueError, match="each of the 256 bytes exactly once"):
            BytePairTokenizer([], byte_order=byte_order)


# --------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path):
    tokenizer = BytePairTokenizer.train(
        SAMPLE, 300, ["<ü>", END], pattern=r"(?s).{1,7}", byte_order=GPT2_BYTE_ORDER
    )
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = BytePairTokenizer.load(
        tmp_path / "tokenizer.json", pattern=tokenizer.pattern
    )
    for name in (
        "pattern",
        "byte_order",
        "special_tokens",
        "merges",
        "vocab_size",
        "fingerprint",
    ):
        assert getattr(loaded, name) == getattr(tokenizer, name)
    assert loaded == tokenizer
    assert hash(loaded) == hash(tokenizer)
    assert loaded.encode(SAMPLE, "all") == tokenizer.encode(SAMPLE, "all")
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


def test_the_fingerprint_covers_all_that_decides_the_ids():
    same = BytePairTokenizer([(97, 98)])
    others = [
        BytePairTokenizer([(97, 99)]),
        BytePairTokenizer([(97, 98)], special_tokens=()),
        BytePairTokenizer([(97, 98)], pattern=GPT2_PATTERN + "|x"),
        BytePairTokenizer([(97, 98)], byte_order=GPT2_BYTE_ORDER),
    ]
    assert len({tokenizer.fingerprint for tokenizer in [same, *others]}) == 5
    assert BytePairTokenizer([(97, 98)]) == same
    assert all(other != same for other in others)
    assert same != "a tokenizer"
    # Stated, since files carry it: it must not change between versions of this package or Python.
    assert same.fingerprint.startswith("3c5349ca4192e825")


@pytest.fixture
def saved(tmp_path):
    BytePairTokenizer.train(SAMPLE, 300).save(tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


def test_a_file_that_is_cut_short(saved):
    content = saved.read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:length])
        with pytest.raises(
            ValueError, match=r"tokenizer\.json is no JSON file, or a damaged or trunc"
        ):
            BytePairTokenizer.load(saved)


def test_a_file_with_a_flipped_bit(unchecked, saved):
    content, original = (
        bytearray(saved.read_bytes()),
        unchecked.BytePairTokenizer.load(saved),
    )
    random_bits, messages = random.Random(0), []
    for position in range(len(content)):
        bit = 1 << random_bits.randrange(8)
        content[position] ^= bit
        saved.write_bytes(content)
        try:
            loaded = unchecked.BytePairTokenizer.load(saved)
        except ValueError as error:
            messages.append(str(error))
        else:  # what is written differently (\u00AD for \u00ad) may yet say the same
            assert loaded == original
        content[position] ^= bit
    assert len(messages) > 0.95 * len(content)
    assert all("tokenizer.json" in message for message in messages)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello", "is no JSON file"),
        ("\xff\xfe", "is no JSON file"),
        ("[]", "is no JSON file.*: it holds a list, and must be a table"),
        ("{}", "is not a tokenizer file that says .*byte-pair tokenizer"),
        ('{"model": {"type": "BPE"}}', "is not a byte-level BPE tokenizer of GPT-2's"),
        (f'{{"format": "{FORMAT}", "version": 2}}', "is not .*'version': 1"),
        (
            f'{{"format": "{FORMAT}", "version": 1}}',
            "cuts text by the pattern None, and there are patterns",
        ),
        ("[" * 100_000, "is damaged: its lists are nested too deep"),
        ('{"a":' * 100_000, "is damaged: its lists are nested too deep"),
        ("[" + "1" * 5000 + "]", "is no JSON file"),
        ("[" + " " * 2**25, "is no JSON file.*: it is larger than 32 MB"),
    ],
)
def test_a_foreign_file(tmp_path, content, message):
    path = tmp_path / "foreign.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=rf"foreign\.json {message}"):
        BytePairTokenizer.load(path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("merges", [[1, 2]], "does not match its checksum"),
        ("merges", [[1, 2, 3]], ""),
        ("merges", [[1.5, 2]], ""),
        ("merges", None, ""),
        ("merges", [["a", "b"]], ""),
        ("byte_order", [300], ""),
        ("byte_order", 10**12, "'int' object is not iterable"),
        ("byte_order", list(range(255)), "each of the 256 bytes"),
        ("special_tokens", "abc", "up to 1,000 strings"),
        ("special_tokens", [f"<{i}>" for i in range(10**5)], "up to 1,000 strings"),
        ("sha256", None, "does not match its checksum"),
    ],
)
def test_a_file_that_was_edited(unchecked, saved, field, value, message):
    content = json.loads(saved.read_text())
    content[field] = value
    saved.write_text(json.dumps(content))
    with pytest.raises(
        ValueError, match=rf"tokenizer\.json is a damaged tokenizer file.*{message}"
    ):
        unchecked.BytePairTokenizer.load(saved)


def test_a_file_with_a_pattern_of_its_own_is_read_only_where_it_is_named(saved):
    # With this one, the search in thirty letters "a" and a "b" takes minutes.
    content = json.loads(saved.read_text())
    for pattern in (r"(?:(a+)+c)?|.", "(", 5):
        saved.write_text(json.dumps({**content, "pattern": pattern}))
        with pytest.raises(ValueError, match=r"json cuts text by the pattern .* trust"):
            BytePairTokenizer.load(saved)


def bomb(kind):
    """Merges in a small file that would fill the memory, or take for ever to check."""
    if kind == "doubling":
        return [[97, 97], *([256 + i, 256 + i] for i in range(40))]
    return [
        [98, 97],
        *([256 + i, 97] for i in range(1000)),
    ]  # each by one letter longer


@pytest.mark.parametrize("kind", ["doubling", "growing"])
def test_a_file_that_is_a_bomb(saved, kind, monkeypatch):
    """Refused before more is merged than the bound allows, in squares of lengths.

    The bound is a second of work or a few; a smaller one is met sooner, in the same way.
    """
    assert tokenizer_file._MOST_WORK <= 2**26
    monkeypatch.setattr(tokenizer_file, "_MOST_WORK", 2**18)
    content, work = json.loads(saved.read_text()), []
    saved.write_text(json.dumps({**content, "merges": bomb(kind)}))

    def counted(word, merged, real=tokenizer_file.apply_merges):
        work.append(len(word) ** 2)
        return real(word, merged)

    monkeypatch.setattr(tokenizer_file, "apply_merges", counted)
    with pytest.raises(ValueError, match=r"makes a token of [\d,]+ bytes; the squares"):
        BytePairTokenizer.load(saved)
    assert 0 < sum(work) <= 2**18


@needs_gpt2
def test_the_largest_known_vocabulary_is_far_from_the_bound(gpt2):
    assert 20 * gpt2._work < tokenizer_file._MOST_WORK


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(FileNotFoundError, match=f"there is no file .*{name}"):
            BytePairTokenizer.load(tmp_path / name)


def test_files_that_are_not_there(tmp_path, tokenizer):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*absent\.json"):
        BytePairTokenizer.load(tmp_path / "absent.json")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        BytePairTokenizer.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"absent"):
        tokenizer.save(tmp_path / "absent" / "tokenizer.json")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_file(saved, tokenizer, monkeypatch, step):
    before = saved.read_bytes()

    def fail(*args):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="the disk is full"):
        tokenizer.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["tokenizer.json"]


def test_representation(tokenizer):
    expected = f"BytePairTokenizer(480 tokens: 256 bytes, 223 merges, {END})"
    assert repr(tokenizer) == expected
