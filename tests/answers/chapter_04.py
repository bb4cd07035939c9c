"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "4.1": [
        """
def split(x, heads):
    S, D = x.shape
    parts = x.view(S, heads, D // heads)
    return parts.transpose(0, 1)
""",
        """
def split(x, heads):
    return torch.stack(x.chunk(heads, dim=1))
""",
    ],
    "4.2": [
        """
def join(x):
    S = x.shape[1]
    return x.transpose(0, 1).reshape(S, -1)
""",
        """
def join(x):
    return torch.cat(list(x), dim=1)
""",
    ],
    "4.3": [
        """
def share(keys, queries_each):
    return keys.repeat_interleave(queries_each, dim=0)
""",
        """
def share(keys, queries_each):
    heads = range(len(keys) * queries_each)
    return torch.stack([keys[head // queries_each] for head in heads])
""",
    ],
    "4.4": [24, 2 * 8 * 64 * 12 * 1_024 * 2 / 2**20],
    "4.5": [10_240, 2 * 64**2 + 2 * 64 * 16],
}
WRONG = {
    "4.1": [
        ("parts.transpose(0, 1)", "x.view(heads, S, D // heads)", "straight"),
        ("parts.transpose(0, 1)", "parts", "positions come first"),
        (
            "parts.transpose(0, 1)",
            "x.view(S, D // heads, heads).permute(2, 0, 1)",
            "dealt out in turn",
        ),
        ("transpose(0, 1)", "permute(1, 2, 0)", "within each head"),
        ("transpose(0, 1)", "transpose(0, 1).flip(0)", "opposite order"),
        ("parts.transpose(0, 1)", "x.repeat(heads, 1, 1)", "its own share"),
        ("parts.transpose(0, 1)", "parts.transpose(0, 1)[0]", "has the shape"),
    ],
    "4.2": [
        (".transpose(0, 1)", "", "without the exchange"),
        ("x.transpose(0, 1).reshape(S, -1)", "x.sum(0)", "added up"),
        ("x.transpose(0, 1).reshape(S, -1)", "x.mean(0)", "averaged"),
        ("transpose(0, 1)", "permute(1, 2, 0)", "alternate"),
        ("x.transpose(0, 1).reshape(S, -1)", "torch.cat(list(x))", "one below"),
        ("x.transpose", "x.flip(0).transpose", "opposite order"),
        ("reshape(S, -1)", "view(S, -1)", "raised RuntimeError"),
    ],
    "4.3": [
        (
            "keys.repeat_interleave(queries_each, dim=0)",
            "torch.cat([keys] * queries_each)",
            "dealt out",
        ),
        ("dim=0", "dim=1", "positions were"),
        ("dim=0", "dim=2", "components were"),
        (
            "keys.repeat_interleave(queries_each, dim=0)",
            "torch.stack([keys[0]] * len(keys) * queries_each)",
            "of group 0",
        ),
        (".repeat_interleave(queries_each, dim=0)", "", "not repeated"),
        ("dim=0)", "dim=0) / queries_each", "they are copies"),
    ],
    "4.4": [
        (12, "keys alone"),
        (48, "not 4"),
        (2, "one layer"),
        (3, "one head"),
        (25_165_824, "in bytes"),
        (25.165824, "a million"),
    ],
    "4.5": [
        (16_384, "for each query"),
        (6_144, "output"),
        (9_216, "one head"),
        (8_192, "keys and of values are"),
        (4_096, "queries have 8"),
    ],
}
