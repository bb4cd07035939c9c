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
    "8.3": [
        """
def cached_step(query, key, value, keys, values):
    keys = torch.cat([keys, key[None]])
    values = torch.cat([values, value[None]])
    scores = keys @ query / math.sqrt(len(query))
    return scores.softmax(0) @ values, keys, values
""",
        """
def cached_step(query, key, value, keys, values):
    keys = torch.vstack([keys, key])
    values = torch.vstack([values, value])
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(query[None], keys, values)[0], keys, values
""",
    ],
    "8.4": [1_200, 12 * 10**2],
    "8.5": [38, 8 + 9 + 10 + 11],
    "8.6": [5, "5"],
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
        (
            "    x = x + attention(norm(x))\n    y = mlp(norm(x))",
            "    x = norm(x)\n    x = x + attention(x)\n    y = mlp(x)",
            "replaces the stream",
        ),
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
    "8.3": [
        (
            "    keys = torch.cat([keys, key[None]])",
            "    return (keys @ query / math.sqrt(len(query))).softmax(0) @ values, "
            "torch.cat([keys, key[None]]), torch.cat([values, value[None]])",
            "see itself",
        ),
        ("values, keys, values\n", "values, keys[:-1], values[:-1]\n", "do not grow"),
        (
            "values, keys, values\n",
            "values, keys.roll(1, 0), values.roll(1, 0)\n",
            "comes first",
        ),
        (" / math.sqrt(len(query))", "", "not divided"),
        (
            "    keys = torch",
            "    key, value, keys, values = value, key, values, keys\n    keys = torch",
            "exchanged",
        ),
        ("key[None]", "query[None]", "holds the query"),
        ("values, keys, values\n", "values\n", "must be three things"),
        ("values, keys, values\n", "values, keys\n", "two things where three"),
        ("values, keys, values\n", "values, values, keys\n", "another order"),
        (
            "return scores.softmax(0) @ values, keys, values\n",
            "return keys, values, scores.softmax(0) @ values\n",
            "first of the three",
        ),
        ("math.sqrt(len(query))", "math.sqrt(len(keys))", "number of keys"),
        (
            "scores.softmax(0) @ values, keys",
            "(scores.softmax(0) @ values)[None], keys",
            "number 1 of what you return has the shape",
        ),
    ],
    "8.4": [
        (400, "attention alone"),
        (800, "MLP alone"),
        (600, "hidden width"),
        (120, "D squared"),
        (1_100, "output matrix"),
    ],
    "8.5": [
        (11, "with a cache"),
        (32, "grows"),
        (42, "not from 9"),
        (50, "is not read"),
        (30, "first reading"),
        (46, "not one more"),
    ],
    "8.6": [
        (1, "three parts"),
        (2, "normalized copy"),
        (3, "comes first"),
        (4, "attention adds"),
        (6, "MLP adds"),
        (7, "passed on"),
        (8, "there are lines 1 to 7"),
        (None, "this is a NoneType"),
    ],
}
MENDED = {"8.6": ("8.1", "    change = mlp(norm(x))")}
"""The exercise whose answer the code is, once its faulty line reads so."""
