"""The pair of languages: exact probabilities, exact alignments, and a way back from the text."""

import math
from collections import Counter, defaultdict
from itertools import islice

import pytest
from ladder import unchecked

from decoder_only.stories import split_of
from decoder_only_book.translation import END, GERMAN, PADDING, START

with unchecked():
    DRAWN = list(islice(GERMAN.pairs(seed=0), 2000))


def test_the_sentence_of_the_documents_can_be_said():
    (pair,) = GERMAN.translations("Bobby likes blackberries.")
    assert pair.source == ("Bobby", "likes", "black+", "berries", ".")
    assert pair.target == ("Bobby", "mag", "Brom+", "beeren", ".")
    assert pair.alignment == tuple(frozenset({i}) for i in range(5))
    assert GERMAN.text(pair.target) == "Bobby mag Brombeeren."
    assert pair.probability == 1
    assert GERMAN.entropy("Bobby likes blackberries.") == 0


def test_a_translation_by_hand():
    source = "The dog does not buy fresh mushrooms at the market this evening."
    found = {GERMAN.text(p.target): p for p in GERMAN.translations(source)}
    likeliest = "Heute Abend kauft der Hund auf dem Markt keine frischen Pilze."
    assert next(iter(found)) == likeliest
    pair = found[likeliest]
    assert pair.probability == 0.75 * 0.75
    assert [sorted(places) for places in pair.alignment] == [
        *([11], [12], [4], [0], [1], [8], [9], [10]),
        *([3], [5], [6, 7], [13]),
    ]
    other = "Der Hund kauft heute Abend keine frischen Pilze auf dem Markt."
    assert GERMAN.log_prob(source, other) == pytest.approx(math.log(1 / 16))
    assert GERMAN.log_prob(source, "Der Hund bellt.") == -math.inf


def test_probabilities_of_all_translations_sum_to_one_and_none_is_listed_twice():
    for pair in DRAWN[:500]:
        found = GERMAN.translations(pair.source)
        assert math.fsum(p.probability for p in found) == pytest.approx(1, abs=1e-12)
        assert len({GERMAN.text(p.target) for p in found}) == len(found)
        assert pair in found
        text = GERMAN.text(pair.target)
        log_prob = GERMAN.log_prob(GERMAN.text(pair.source), text)
        assert log_prob == pytest.approx(math.log(pair.probability))


@unchecked()
def test_pairs_are_drawn_with_the_probabilities_that_are_said():
    """Grouped by the probability that they claim, translations come as often as that."""
    expected, seen, variance = defaultdict(float), Counter(), defaultdict(float)
    for pair in DRAWN:
        for other in GERMAN.translations(pair.source):
            p = round(other.probability, 6)
            expected[p] += p
            variance[p] += p * (1 - p)
        seen[round(pair.probability, 6)] += 1
    assert len(expected) > 8
    for p, mean in expected.items():
        assert abs(seen[p] - mean) <= 5 * math.sqrt(variance[p]) + 1e-9


@unchecked()
def test_the_entropy_is_the_mean_over_the_sentences():
    entropies = [GERMAN.entropy(pair.source) for pair in DRAWN]
    mean = sum(entropies) / len(entropies)
    spread = math.sqrt(sum((h - mean) ** 2 for h in entropies)) / len(entropies)
    assert abs(mean - GERMAN.entropy()) < 4 * spread
    surprise = -sum(math.log(pair.probability) for pair in DRAWN) / len(DRAWN)
    assert abs(surprise - GERMAN.entropy()) < 0.1


def test_sentences_are_drawn_with_the_probabilities_that_are_said():
    said = math.log(1 / 2 / 16 / 8 / 12 / 2 / 2 / 2)
    assert GERMAN.source_log_prob("Bobby likes blackberries.") == pytest.approx(said)
    said = math.log(1 / 4 / 16 / 8 / 12 / 10 / 12 / 8)
    text = "The dog has seen red potatoes at the lake now."
    assert GERMAN.source_log_prob(text) == pytest.approx(said)
    for text in ("the dog likes pears.", "Bobby likes", "Bobby mag Birnen.", ""):
        assert GERMAN.source_log_prob(text) == -math.inf
    # Grouped by their probability, sentences come as often as the groups weigh.
    scores = [GERMAN.source_log_prob(pair.source) for pair in DRAWN]
    entropy = math.log(16 * 8 * 12) + 1.5 * math.log(2)  # the form
    entropy += 3 * math.log(2) + (math.log(5) + math.log(6) + math.log(4)) / 2
    spread = math.sqrt(sum((s + entropy) ** 2 for s in scores)) / len(scores)
    assert abs(sum(scores) / len(scores) + entropy) < 4 * spread


def test_alignment_is_in_range_and_names_stand_on_themselves():
    for pair in DRAWN:
        assert len(pair.alignment) == len(pair.target)
        places = [place for aligned in pair.alignment for place in aligned]
        assert places
        assert set(places) <= set(range(len(pair.source)))
        assert pair.alignment[-1] == {len(pair.source) - 1}
        for piece, aligned in zip(pair.target, pair.alignment, strict=True):
            if piece in pair.source:  # names and the full stop are the same in both
                assert [pair.source[i] for i in aligned] == [piece]
            assert aligned


def test_texts_come_back_from_ids_and_words_fall_into_their_pieces():
    assert GERMAN.vocabulary[:3] == (PADDING, START, END)
    assert len(set(GERMAN.vocabulary)) == len(GERMAN.vocabulary)
    for pair in DRAWN[:500]:
        assert GERMAN.pieces(GERMAN.text(pair.source)) == pair.source
        for pieces in (pair.source, pair.target):
            ids = GERMAN.encode(pieces)
            assert (ids[0], ids[-1]) == (1, 2)
            assert GERMAN.decode([*ids, 0, 0]) == GERMAN.text(pieces)


def test_splits_share_no_source_and_seeds_repeat():
    held_out = list(islice(GERMAN.pairs(split="validation", seed=0), 100))
    texts = {GERMAN.text(pair.source) for pair in DRAWN}
    for pair in held_out:
        text = GERMAN.text(pair.source)
        assert text not in texts
        assert split_of(text) == "validation"
    assert DRAWN[:50] == list(islice(GERMAN.pairs(seed=0), 50))
    assert DRAWN[:50] != list(islice(GERMAN.pairs(seed=1), 50))


@pytest.mark.parametrize(
    "text",
    [
        *("", "Bobby", "Bobby likes.", "Bobby likes blackberries", "likes pears."),
        *(
            "Bobby has likes pears.",
            "Bobby likes red fresh pears.",
            "Bobby mag Birnen.",
        ),
    ],
)
def test_what_is_no_sentence_is_refused(text):
    with pytest.raises(ValueError, match=r"must be a sentence such as 'Bobby likes"):
        GERMAN.translations(text)


def test_other_bad_input_is_refused():
    with pytest.raises(ValueError, match="piece='Haus' must"):
        GERMAN.encode(["Haus"])
    with unchecked(), pytest.raises(ValueError, match="split='test' must"):
        GERMAN.pairs(split="test")
    with unchecked(), pytest.raises(ValueError, match="seed='0' must"):
        GERMAN.pairs(seed="0")


def test_next_pieces_multiply_to_the_probability_of_a_sentence():
    for pair in DRAWN[:100]:
        steps = [
            GERMAN.next_pieces(pair.source[:place])[piece]
            for place, piece in enumerate(pair.source)
        ]
        log_p = GERMAN.source_log_prob(pair.source)
        assert math.log(math.prod(steps)) == pytest.approx(log_p)
        assert GERMAN.next_pieces(pair.source) == {END: 1.0}
    assert math.fsum(GERMAN.next_pieces(["Bobby"]).values()) == pytest.approx(1)
    with pytest.raises(ValueError, match="the beginning of a sentence"):
        GERMAN.next_pieces(["Bobby", "Bobby"])
