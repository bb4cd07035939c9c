"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "6.1": [
        """
def swiglu(x, gate, up, down):
    opened = torch.nn.functional.silu(x @ gate.T)
    read = x @ up.T
    return (opened * read) @ down.T
""",
        """
def swiglu(x, gate, up, down):
    z = torch.einsum("sd,fd->sf", x, gate)
    hidden = z * torch.sigmoid(z) * torch.einsum("sd,fd->sf", x, up)
    return torch.einsum("sf,df->sd", hidden, down)
""",
    ],
    "6.2": [
        """
def contributions(x, up, down):
    opened = (up @ x).clamp(min=0)
    return opened[:, None] * down.T
""",
        """
def contributions(x, up, down):
    rows = []
    for f in range(len(up)):
        rows.append(max(float(up[f] @ x), 0.0) * down[:, f])
    return torch.stack(rows)
""",
    ],
    "6.3": [8 * 768**2, "4718592"],
    "6.4": [2_048, 2_048.0],
    "6.5": [200e6, 200_000_000],
    "6.6": [
        """
def mlp(x, up, down):
    units = torch.relu(x @ up.T)
    return units.square() @ down.T
""",
        """
def mlp(x, up, down):
    units = torch.einsum("sd,fd->sf", x, up)
    return torch.where(units > 0, units * units, 0.0).matmul(down.T)
""",
    ],
}
WRONG = {
    "6.1": [
        ("torch.nn.functional.silu(x @ gate.T)", "x @ gate.T", "no activation"),
        (
            "    opened = torch.nn.functional.silu(x @ gate.T)\n    read = x @ up.T",
            "    opened = x @ gate.T\n    read = torch.nn.functional.silu(x @ up.T)",
            "belongs to the gate",
        ),
        ("opened * read", "opened + read", "multiplies the other"),
        ("torch.nn.functional.silu(", "torch.sigmoid(", "sigmoid alone"),
        ("functional.silu", "functional.relu", "a ReLU"),
        ("functional.silu", "functional.gelu", "a GELU"),
        (
            "(opened * read)",
            "torch.nn.functional.silu((x @ gate.T) * read)",
            "after the product",
        ),
        ("opened * read", "opened", "not used"),
        ("(opened * read) @ down.T", "opened", "the numbers differ"),
    ],
    "6.2": [
        ("opened[:, None] * down.T", "down @ opened", "added up"),
        (".clamp(min=0)", "", "is closed"),
        ("down.T", "down", "not a row"),
        ("(up @ x)", "(up.T @ x)", "not with a column"),
        ("opened[:, None] * down.T", "opened * down", "transposed"),
        ("(up @ x).clamp(min=0)", "(up @ x > 0).float()", "how far"),
    ],
    "6.3": [
        (4 * 768**2, "two matrices"),
        (12 * 768**2, "three matrices"),
        (4 * 768, "number of units"),
        (8 * 768**2 + 5 * 768, "biases"),
        (4 * 768 * 768 + 768, "attention"),
    ],
    "6.4": [
        (3_072, "half as much"),
        (1_536, "not a half"),
        (4_608, "not wider"),
        (1_024, "one third"),
        (2_304, "three quarters"),
    ],
    "6.5": [
        (100e6, "one expert"),
        (800e6, "two compute"),
        (600e6, "does not use"),
        (400e6, "a quarter"),
        (200, "millions"),
    ],
    "6.6": [
        ("units.square()", "units", "not squared"),
        ("torch.relu(x @ up.T)", "x @ up.T", "before the ReLU"),
        ("units.square() @ down.T", "(units @ down.T).square()", "output is squared"),
        (
            "torch.relu(x @ up.T)\n    return units.square()",
            "torch.nn.functional.gelu(x @ up.T)\n    return units",
            "a GELU",
        ),
        (
            "torch.relu(x @ up.T)\n    return units.square() @ down.T",
            "x @ up.T\n    return torch.relu(units @ down.T)",
            "on the output",
        ),
        (
            "torch.relu(x @ up.T)\n    return units.square()",
            "x @ up.T\n    return units",
            "no activation",
        ),
        (
            "torch.relu(x @ up.T)\n    return units.square() @ down.T",
            "torch.relu(x @ up)\n    return units.square() @ down",
            "transposed",
        ),
        (
            "torch.relu(x @ up.T)\n    return units.square() @ down.T",
            "torch.relu(x @ down.T)\n    return units.square() @ up.T",
            "exchanged",
        ),
    ],
}
