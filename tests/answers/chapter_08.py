"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "8.1": [
        """
def block(x, norm, attention, mlp):
    x = x + attention(norm(x))
    y = mlp(norm(x))
    return x + y
""",
        """
def block(x, norm, attention, mlp):
    for part in (attention, mlp):
        x = part(norm(x)) + x
    return x
""",
    ],
    "8.2": [
        """
def logits(x, norm, table):
    return norm(x) @ table.T
""",
        """
def logits(x, norm, table):
    return torch.einsum("sd,vd->sv", norm(x), table)
""",
    ],
}
WRONG = {
    "8.1": [
        ("x = x + attention(norm(x))", "x = attention(norm(x))", "round attention"),
        ("return x + y", "return y", "round the MLP"),
        ("norm(x)", "x", "normalized copy"),
        (
            "    x = x + attention(norm(x))\n    y = mlp(norm(x))",
            "    y = mlp(norm(x))\n    x = x + attention(norm(x))",
            "side by side",
        ),
        (
            "x = x + attention(norm(x))\n    y = mlp(norm(x))",
            "x = x + mlp(norm(x))\n    y = attention(norm(x))",
            "before attention",
        ),
        (
            "x = x + attention(norm(x))\n    y = mlp(norm(x))\n    return x + y",
            "x = norm(x + attention(x))\n    return norm(x + mlp(x))",
            "post-norm",
        ),
        ("return x + y", "pass", "returns nothing"),
    ],
    "8.2": [
        ("norm(x)", "x", "final norm"),
        ("table.T", "table", "transposed"),
        ("norm(x) @ table.T", "(norm(x) @ table.T).softmax(-1)", "are probabilities"),
        (
            "norm(x) @ table.T",
            "(norm(x) @ table.T).log_softmax(-1)",
            "log-probabilities",
        ),
        ("norm(x) @ table.T", "norm(x @ table.T)", "stream should be"),
        ("norm(x) @ table.T", "norm(x)[-1] @ table.T", "has the shape"),
    ],
}
