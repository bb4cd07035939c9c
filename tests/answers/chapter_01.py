"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "1.1": [
        """
def merge(ids, pair, new_id):
    result = []
    i = 0
    while i < len(ids):
        if i + 1 < len(ids) and (ids[i], ids[i + 1]) == pair:
            result.append(new_id)
            i += 2
        else:
            result.append(ids[i])
            i += 1
    return result
""",
        """
def merge(ids, pair, new_id):
    if len(ids) < 2:
        return list(ids)
    if (ids[0], ids[1]) == pair:
        return [new_id] + merge(ids[2:], pair, new_id)
    return [ids[0]] + merge(ids[1:], pair, new_id)
""",
    ],
    "1.2": [
        """
def count_pairs(words):
    counts = {}
    for word, n in words.items():
        for i in range(len(word) - 1):
            pair = (word[i], word[i + 1])
            counts[pair] = counts.get(pair, 0) + n
    return counts
""",
        """
from collections import Counter
def count_pairs(words):
    return sum((Counter({p: n * list(zip(w, w[1:])).count(p) for p in zip(w, w[1:])})
                for w, n in words.items()), Counter())
""",
    ],
    "1.3": [88, "88"],
    "1.4": [6, 6.0],
    "1.5": [1257, 256 + 1000 + 1],
}
WRONG = {
    "1.1": [
        ("i += 2", "i += 1", "used twice"),
        (
            "(ids[i], ids[i + 1]) == pair",
            "{ids[i], ids[i + 1]} == set(pair)",
            "either order",
        ),
        (
            "result.append(new_id)\n",
            "result += [new_id] + ids[i + 2 :]\n            break\n",
            "first",
        ),
        (
            "result.append(new_id)\n",
            "result += [new_id, ids[i + 1]]\n",
            "second id of the pair",
        ),
        ("while i < len(ids)", "while i < len(ids) - 1", "very end gets lost"),
        ("    result = []", "    return ids", "nothing was merged"),
        ("    return result", "", "returns nothing"),
        ("    i = 0", "    i = missing", "raised NameError"),
    ],
    "1.2": [
        ("+ n", "+ 1", "counts once"),
        ("range(len(word) - 1)", "range(len(word) - 2)", "last pair"),
        ("range(len(word) - 1)", "range(0, len(word) - 1, 2)", "every second"),
        (
            "(word[i], word[i + 1])",
            "tuple(sorted(word[i : i + 2]))",
            "two different pairs",
        ),
        ("range(len(word) - 1)", "range(len(word))", "raised IndexError"),
        ("return counts", "return list(counts)", "must be a dict"),
    ],
    "1.3": [
        (76, "not two"),
        (12, "saving"),
        (112, "shorter"),
        (100, "vocabulary"),
        (101, "new entry"),
        (None, "a number"),
        (3, "too small"),
    ],
    "1.4": [
        (5, "characters"),
        (10, "only ï"),
        (7, "not three"),
        (8, "not four"),
        (20, "UTF-32"),
    ],
    "1.5": [
        (1256, "too"),
        (1001, "bytes are"),
        (1000, "only the merges"),
        (257, "removes none"),
        (2257, "were there before"),
    ],
}
