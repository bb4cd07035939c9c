"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "3.1": [
        """
def softmax(scores):
    scores = scores - scores.amax(dim=-1, keepdim=True)
    powers = scores.exp()
    return powers / powers.sum(dim=-1, keepdim=True)
""",
        """
def softmax(scores):
    return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
""",
    ],
    "3.2": [
        """
def attend(query, key, value, sees):
    scores = query @ key.T / math.sqrt(query.shape[1])
    scores = scores.masked_fill(~sees, -math.inf)
    weights = scores.softmax(dim=1)
    return weights @ value
""",
        """
def attend(query, key, value, sees):
    output = torch.zeros_like(value)
    for s in range(len(query)):
        seen = sees[s].nonzero().flatten()
        scores = key[seen] @ query[s] / query.shape[1] ** 0.5
        output[s] = scores.softmax(dim=0) @ value[seen]
    return output
""",
    ],
    "3.3": [0.8, "0.8"],
    "3.4": [21, 21.0],
    "3.5": [8, 64**0.5],
    "3.6": [3, "3"],
}
WRONG = {
    "3.1": [
        ("scores - scores.amax(dim=-1, keepdim=True)", "scores", "overflow"),
        ("dim=-1", "dim=0", "first dimension"),
        ("scores.amax(dim=-1, keepdim=True)", "scores.max()", "each row's own"),
        ("scores.exp()", "2 ** scores", "base is 2"),
        ("powers.sum(dim=-1, keepdim=True)", "powers.sum()", "sum of all rows"),
        (" / powers.sum(dim=-1, keepdim=True)", "", "not divided"),
        (
            "return powers / powers.sum(dim=-1, keepdim=True)",
            "return scores - scores.logsumexp(dim=-1, keepdim=True)",
            "logarithms",
        ),
        ("scores.exp()", "10 ** scores", "base is 10"),
        ("scores.exp()", "scores", "no power of e"),
        (
            "scores = scores - scores.amax(dim=-1, keepdim=True)\n    powers = scores.exp()",
            "powers = scores",
            "divided by their sum",
        ),
        (
            "scores = scores - scores.amax(dim=-1, keepdim=True)\n    powers = scores.exp()\n"
            "    return powers / powers.sum(dim=-1, keepdim=True)",
            "return scores.exp() / scores.exp().sum()",
            "each row has its own",
        ),
        ("scores = scores - ", "scores -= ", "changes what it was given"),
    ],
    "3.2": [
        ("dim=1", "dim=0", "over the queries"),
        (" / math.sqrt(query.shape[1])", "", "not divided"),
        ("math.sqrt(query.shape[1])", "query.shape[1]", "divided by K"),
        ("    scores = scores.masked_fill(~sees, -math.inf)\n", "", "not used"),
        ("~sees", "~sees.T", "turned round"),
        ("~sees", "sees", "is inverted"),
        ("~sees", "torch.ones_like(sees).triu(1)", "of your own"),
        ("scores.masked_fill(~sees, -math.inf)", "scores * sees", "still a weight"),
        ("query @ key.T", "key @ query.T", "transposed"),
        ("weights @ value", "weights @ key", "of the values"),
        (
            "    return weights @ value",
            "    while True:\n        pass",
            "without an end",
        ),
        ("weights @ value", "weights", "has the shape"),
        (
            " / math.sqrt(query.shape[1])\n",
            "\n    value = value / math.sqrt(query.shape[1])\n",
            "after the softmax",
        ),
        ("query.shape[1]", "query.shape[0]", "root of S"),
        ("weights @ value", "weights.T @ value", "weights are transposed"),
        ("scores.softmax(dim=1)", "scores.exp()", "powers are not divided"),
    ],
    "3.3": [
        (8, "before the division"),
        (2.0794415, "that is the score"),
        (1, "their powers"),
        (0.1, "other keys"),
        (4, "own included"),
        (0.9094430, "base 2"),
        (0.5522755, "base 10"),
        (0.6787759, "not of 2"),
        (float("nan"), "nan"),
    ],
    "3.4": [
        (15, "itself"),
        (36, "all pairs"),
        (18, "diagonal"),
        (6, "last position"),
        (27, "count from"),
        ([1], "a number"),
    ],
    "3.5": [
        (64, "variance"),
        (1, "after the division"),
        (0.125, "not a mean"),
        (4096, "squares"),
        (0, "that is the mean"),
        (9, "too large"),
    ],
    "3.6": [
        (1, "line 1"),
        (2, "a column for each key"),
        (4, "before the softmax"),
        (5, "that of the keys"),
        (6, "mean of the values"),
        (7, "there are lines 1 to 6"),
        (None, "this is a NoneType"),
    ],
}
MENDED = {"3.6": ("3.2", "    scores = scores / math.sqrt(query.shape[1])")}
"""The exercise whose answer the code is, once its faulty line reads so."""
