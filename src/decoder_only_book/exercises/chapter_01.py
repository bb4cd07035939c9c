"""Exercises of chapter 1: one merge, counting, and what a cut hides."""

from collections import Counter
from itertools import pairwise

from decoder_only_book.exercises.framework import Exercise, Predict, Write


def _merge(ids: list[int], pair: tuple[int, int], new_id: int) -> list[int]:
    merged, place = [], 0
    while place < len(ids):
        if tuple(ids[place : place + 2]) == pair:
            merged.append(new_id)
            place += 2
        else:
            merged.append(ids[place])
            place += 1
    return merged


def _merge_wrongly(mistake: str):
    def merge(ids, pair, new_id):
        merged, place, left = [], 0, -1 if mistake != "once" else 1
        while place < len(ids):
            here = tuple(ids[place : place + 2])
            found = here == pair
            if mistake == "either order":
                found = here in (pair, pair[::-1])
            if found and left != 0:
                merged += [new_id, ids[place + 1]] if mistake == "keeps" else [new_id]
                place += 1 if mistake == "overlaps" else 2
                left -= 1
            else:
                is_last = place == len(ids) - 1
                if not (mistake == "loses the end" and is_last):
                    merged.append(ids[place])
                place += 1
        return merged

    return merge


def _count(words: dict) -> dict:
    counts = Counter()
    for word, n_occurrences in words.items():
        for pair in pairwise(word):
            counts[pair] += n_occurrences
    return dict(counts)


def _count_wrongly(mistake: str):
    def count(words):
        counts = Counter()
        for word, n in words.items():
            n = 1 if mistake == "unweighted" else n
            pairs = list(pairwise(word))
            if mistake == "once a word":
                pairs = list(dict.fromkeys(pairs))
            if mistake == "no last":
                pairs = pairs[:-1]
            if mistake == "sorted":
                pairs = [tuple(sorted(pair)) for pair in pairs]
            if mistake == "disjoint":
                pairs = pairs[::2]
            for pair in pairs:
                counts[pair] += n
        return dict(counts)

    return count


EXERCISES: dict[str, Exercise] = {
    "1.1": Write(
        title="one merge",
        task="Replace every occurrence of `pair` in a list of ids by `new_id`, from the left.",
        stub="def merge(ids, pair, new_id):\n    ...",
        hints=(
            "Walk through the list with a place of your own, not with a for loop.",
            "At each place there are two cases: the pair begins here, or it does not.",
            "After a merge the place moves on by two, and otherwise by one.",
        ),
        reference=_merge,
        cases={
            "mississippi": ([1, 0, 3, 3, 0, 3, 3, 0, 2, 2, 0], (0, 3), 4),
            "a pair at the end": ([5, 1, 2, 2, 1, 1, 2], (1, 2), 9),
            "three equal ids": ([7, 7, 7, 1], (7, 7), 8),
            "no ids": ([], (1, 2), 3),
        },
        wrong={
            "the second id is used twice: after a merge, move on by two": _merge_wrongly(
                "overlaps"
            ),
            "only the first occurrence was merged": _merge_wrongly("once"),
            "the pair is merged in either order; (1, 2) is not (2, 1)": _merge_wrongly(
                "either order"
            ),
            "the second id of the pair stays beside the new one": _merge_wrongly(
                "keeps"
            ),
            "an id at the very end gets lost": _merge_wrongly("loses the end"),
            "nothing was merged": lambda ids, pair, new_id: list(ids),
        },
    ),
    "1.2": Write(
        title="counting pairs",
        task="`words` maps each word, a tuple of ids, to how often it occurs. Count each pair of "
        "neighbours, overlaps included: (1, 1, 1) has the pair (1, 1) twice. Return a dict from "
        "pairs to counts.",
        stub="def count_pairs(words):\n    ...",
        hints=(
            "Two loops: over the words, and over the places in a word.",
            "A word of n ids has n - 1 pairs of neighbours.",
            "A pair in a word that occurs seven times counts seven.",
        ),
        reference=_count,
        cases={
            "two words": ({(1, 2, 1, 2): 3, (2, 1): 2},),
            "a word of one id and the word 1 1 1": ({(5,): 4, (1, 1, 1): 2},),
        },
        wrong={
            "each word counts once; count it as often as it occurs": _count_wrongly(
                "unweighted"
            ),
            "a pair that comes twice in a word counts twice": _count_wrongly(
                "once a word"
            ),
            "the last pair of each word is missing": _count_wrongly("no last"),
            "(1, 2) and (2, 1) are two different pairs": _count_wrongly("sorted"),
            "every second pair is missing: neighbours share an id": _count_wrongly(
                "disjoint"
            ),
        },
    ),
    "1.3": Predict(
        title="how many tokens are left",
        task="A text of 100 tokens holds the pair (a, b) 12 times, a before b. How many tokens "
        "are left after this merge?",
        hints=(
            "What does one occurrence become?",
            "Two tokens become one.",
            "Each occurrence shortens the text by one.",
        ),
        answer=88,
        wrong={
            "each occurrence saves one token, not two": 76,
            "that is the saving; how many tokens are left": 12,
            "a merge makes the text shorter, not longer": 112,
            "the text got shorter; only the vocabulary got longer by one": 100,
            "101 counts the new entry of the vocabulary, not the text": 101,
        },
    ),
    "1.4": Predict(
        title="bytes of a word",
        task="GPT-2 starts from bytes. How many bytes has “naïve” in UTF-8, with ï as one "
        "character?",
        hints=(
            "Letters of English take one byte each.",
            "The letter ï is not one of them.",
            "Latin letters with marks take two bytes.",
        ),
        answer=6,
        wrong={
            "these are the characters; one of them takes two bytes": 5,
            "only ï takes more than one byte": 10,
            "UTF-8 writes ï in two bytes, not three": 7,
            "UTF-8 writes ï in two bytes, not four": 8,
            "that is four bytes for each character, as in UTF-32": 20,
        },
    ),
    "1.5": Predict(
        title="the size of a vocabulary",
        task="A tokenizer has 256 bytes, 1,000 merges and one special token. How many ids has "
        "it?",
        hints=(
            "Every merge makes one new token.",
            "The bytes stay in the vocabulary.",
            "Add up all three.",
        ),
        answer=1257,
        wrong={
            "the special token has an id, too": 1256,
            "the bytes are part of the vocabulary": 1001,
            "only the merges were counted": 1000,
            "a merge adds one token and removes none": 257,
            "a merge adds one token; the two that it joins were there before": 2257,
        },
    ),
}
