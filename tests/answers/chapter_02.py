"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "2.1": [
        """
def look_up(ids, table):
    rows = torch.nn.functional.one_hot(ids, len(table)).to(table.dtype)
    return rows @ table
""",
        """
def look_up(ids, table):
    rows = torch.zeros(len(ids), len(table))
    for s, id in enumerate(ids):
        rows[s, id] = 1
    return torch.matmul(rows, table)
""",
    ],
    "2.2": [
        """
def turn(x, frequencies):
    angles = torch.arange(len(x))[:, None] * frequencies
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)
""",
        """
def turn(x, frequencies):
    half = x.shape[1] // 2
    turned = torch.empty_like(x)
    for s in range(x.shape[0]):
        for i in range(half):
            a = s * frequencies[i]
            u, v = x[s, i], x[s, half + i]
            turned[s, i] = u * torch.cos(a) - v * torch.sin(a)
            turned[s, half + i] = u * torch.sin(a) + v * torch.cos(a)
    return turned
""",
    ],
    "2.3": [51_281 * 768, "39383808"],
    "2.4": [3**0.5 / 2, 0.8660254],
    "2.5": [10**3.875, 7498.9421],
}
WRONG = {
    "2.1": [
        ("return rows @ table", "return rows", "one-hot rows"),
        ("return rows @ table", "return (rows @ table).sum(0)", "added up"),
        (
            "one_hot(ids,",
            "one_hot((ids + 1) % len(table),",
            "row after",
        ),
        (
            "one_hot(ids,",
            "one_hot((ids - 1) % len(table),",
            "row before",
        ),
        ("rows @ table", "(rows @ table).T", "transposed"),
        (".to(table.dtype)", "", "raised RuntimeError"),
    ],
    "2.2": [
        ("arange(len(x))", "arange(1, len(x) + 1)", "first row stays"),
        ("torch.arange(len(x))[:, None] * frequencies", "frequencies", "same angle"),
        ("torch.arange(len(x))", "-torch.arange(len(x))", "backward"),
        ("* frequencies", "* frequencies * math.pi / 180", "in radians"),
        (
            "cos, sin = angles.cos(), angles.sin()",
            "sin, cos = angles.cos(), angles.sin()",
            "exchanged",
        ),
        ("cos - second", "cos + second", "one minus"),
        (
            "[first * cos - second * sin, first * sin + second * cos]",
            "[first * sin + second * cos, first * cos - second * sin]",
            "wrong order",
        ),
        (
            "torch.cat([first * cos - second * sin, first * sin + second * cos], -1)",
            "x + torch.cat([cos, sin], -1)",
            "are added",
        ),
    ],
    "2.3": [
        (50_257 * 768, "positions have a table"),
        (51_281, "number of rows"),
        (50_257 * 1_024, "do not multiply"),
        (1_024 * 768, "alone"),
        ((50_257 + 1_024 + 768) * 768, "in neither"),
    ],
    "2.4": [
        (0.34202014, "subtracted"),
        (0.5, "the sine"),
        (1, "before they were turned"),
        (0.15425145, "radians"),
        (0.60402277, "sines count"),
    ],
    "2.5": [
        (1, "first pair"),
        (10_000, "counts from 0"),
        (10_000 ** (31 / 64), "2i, not i"),
        (10_000 ** (-62 / 64), "fits into 1"),
        (6.283185307 * 10_000 ** (62 / 64), "full turn"),
    ],
}
