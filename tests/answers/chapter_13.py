"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "13.1": [
        """
def ring_round(parts, number):
    P = len(parts)
    after = parts.clone()
    for d in range(P):
        chunk = (d - number) % P
        after[(d + 1) % P, chunk] += parts[d, chunk]
    return after
""",
        """
def ring_round(parts, number):
    device = torch.arange(len(parts))
    sends = (device[:, None] - number) % len(parts) == device
    return parts + (parts * sends[:, :, None]).roll(1, 0)
""",
    ],
    "13.2": [
        """
def mean_gradient(gradients, sizes):
    sums = gradients * sizes[:, None]
    return sums.sum(0) / sizes.sum()
""",
        """
def mean_gradient(gradients, sizes):
    return (sizes / sizes.sum()) @ gradients
""",
    ],
    "13.3": [0.2, 3 / 15],
    "13.4": [12, 2 * 3 * 2],
    "13.5": [7, 2 + 2 + 12 / 4],
}
WRONG = {
    "13.1": [
        ("+= parts", "= parts", "is replaced"),
        ("(d + 1)", "(d - 1)", "wrong way"),
        ("(d - number)", "(d + number)", "one lower"),
        ("(d - number) % P", "number", "the same chunk"),
        (
            "after[(d + 1) % P, chunk] += parts[d, chunk]",
            "after[(d + 1) % P] += parts[d]",
            "all chunks",
        ),
        ("(d - number)", "d", "is not used"),
        (
            "parts[d, chunk]\n",
            "parts[d, chunk]\n        after[d, chunk] -= parts[d, chunk]\n",
            "stays there",
        ),
        (".clone()", "", "changes what it was given"),
    ],
    "13.2": [
        ("sums.sum(0) / sizes.sum()", "gradients.mean(0)", "one vote"),
        ("sums.sum(0) / sizes.sum()", "gradients.sum(0)", "not divided"),
        (" / sizes.sum()", "", "sums were not"),
        ("sizes.sum()", "len(sizes)", "number of devices"),
        (
            "sums.sum(0) / sizes.sum()",
            "(gradients / sizes[:, None]).mean(0)",
            "once more",
        ),
        ("sums.sum(0)", "gradients.sum(0)", "sum of means"),
    ],
    "13.3": [
        (0.25, "with working ones"),
        (0.8, "a stage works"),
        (0.3333333, "leaves the wait out"),
        (3, "number of idle"),
        (0.2666667, "one too many"),
    ],
    "13.4": [
        (6, "alone"),
        (16, "not 4"),
        (8, "more than"),
        (48, "together"),
        (2, "one chunk"),
        (24, "single sender"),
    ],
    "13.5": [
        (16, "without a division"),
        (4, "are not divided"),
        (5.5, "the gradient is not"),
        (3, "optimizer alone"),
        (10, "copy of 4"),
    ],
}
