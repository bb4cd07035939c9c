"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "11.1": [
        """
def masks(S, T):
    encoder = torch.ones(S, S) > 0
    decoder = torch.ones(T, T).tril() > 0
    cross = torch.ones(T, S) > 0
    return encoder, decoder, cross
""",
        """
def masks(S, T):
    time = torch.arange(T)
    decoder = time[:, None] >= time[None]
    return [torch.full((S, S), True), decoder, torch.full((T, S), True)]
""",
    ],
    "11.2": [
        """
def prefix_mask(length, prefix):
    sees = torch.ones(length, length).tril() > 0
    sees[:, :prefix] = True
    return sees
""",
        """
def prefix_mask(length, prefix):
    place = torch.arange(length)
    return (place[None] <= place[:, None]) | (place[None] < prefix)
""",
    ],
    "11.3": [12, 0.8 * 15],
    "11.4": [3.40909, 100 * 3 / 88],
    "11.5": [4.158883, "4.1589"],
}
WRONG = {
    "11.1": [
        ("torch.ones(S, S)", "torch.ones(S, S).tril()", "both ways"),
        ("torch.ones(T, T).tril()", "torch.ones(T, T)", "own future"),
        ("tril()", "triu()", "hides the past"),
        ("tril()", "tril(-1)", "itself, too"),
        ("torch.ones(T, S)", "torch.ones(T, S).tril()", "cross-attention is causal"),
        ("torch.ones(T, S)", "torch.ones(S, T)", "T rows"),
        ("> 0", "< 1", "True and False"),
        (
            "encoder, decoder, cross\n",
            "decoder, encoder, cross\n",
            "decoder are exchanged",
        ),
        ("encoder, decoder, cross\n", "decoder\n", "must be three things"),
    ],
    "11.2": [
        ("    sees[:, :prefix] = True\n", "", "within the question"),
        (".tril()", "", "nothing is hidden"),
        ("True\n", "True\n    sees[:prefix] = True\n", "written after it"),
        ("sees[:, :prefix]", "sees[:prefix, prefix:]", "sees its answer"),
        (":prefix]", ":prefix - 1]", "earlier"),
        (":prefix]", ":prefix + 1]", "later"),
        ("return sees", "return ~sees", "True and False"),
        ("return sees", "return sees.T", "rows and columns"),
    ],
    "11.3": [
        (80, "of the chosen"),
        (15, "that are chosen"),
        (0.12, "percent are asked"),
        (13.5, "random tokens are not"),
        (1.5, "share of random"),
        (88, "other tokens"),
    ],
    "11.4": [
        (3, "ruled out"),
        (1.7045455, "as well as"),
        (20, "of the chosen"),
        (15, "and ruled out"),
        (0.0340909, "percent are asked"),
        (96.590909, "not asked for"),
    ],
    "11.5": [
        (6, "in bits"),
        (4.1431347, "not 63"),
        (8.3177662, "64 times 64"),
        (0.015625, "probability"),
        (-4.1588831, "not negative"),
        (0, "no certainty"),
    ],
}
