"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "9.1": [
        """
def adamw(w, g, m, v, n, rate, decay):
    m = 0.9 * m + 0.1 * g
    v = 0.95 * v + 0.05 * g**2
    mean = m / (1 - 0.9**n)
    square = v / (1 - 0.95**n)
    w = w - rate * decay * w
    return w - rate * mean / (square**0.5 + 1e-8), m, v
""",
        """
def adamw(w, g, m, v, n, rate, decay):
    m = torch.lerp(m, g, 0.1)
    v = torch.lerp(v, g * g, 0.05)
    step = (m / (1 - 0.9**n)) / ((v / (1 - 0.95**n)).sqrt() + 1e-8)
    return [(1 - rate * decay) * w - rate * step, m, v]
""",
    ],
    "9.2": [
        """
def factors(steps, warmup, decay):
    rates = []
    for s in range(steps):
        rising = (s + 1) / warmup
        falling = (steps - s) / decay
        rates.append(min(1.0, rising, falling))
    return rates
""",
        """
def factors(steps, warmup, decay):
    rise = [i / warmup for i in range(1, warmup + 1)]
    fall = [i / decay for i in range(decay, 0, -1)]
    return rise + [1.0] * (steps - warmup - decay) + fall
""",
    ],
    "9.3": [0.25, "0.25"],
    "9.4": [3, 3.0],
    "9.5": [112, "112"],
}
WRONG = {
    "9.1": [
        (
            "m / (1 - 0.9**n)\n    square = v / (1 - 0.95**n)",
            "m\n    square = v",
            "not corrected",
        ),
        (
            "    m = 0.9",
            "    g = g + decay * w\n    decay = 0\n    m = 0.9",
            "L2",
        ),
        ("    w = w - rate * decay * w\n", "", "does not decay"),
        ("rate * decay * w", "decay * w", "multiplied by the rate"),
        (
            "m = 0.9 * m + 0.1 * g\n    v = 0.95 * v + 0.05 * g**2\n"
            "    mean = m / (1 - 0.9**n)\n    square = v / (1 - 0.95**n)",
            "m = 0.95 * m + 0.05 * g\n    v = 0.9 * v + 0.1 * g**2\n"
            "    mean = m / (1 - 0.95**n)\n    square = v / (1 - 0.9**n)",
            "exchanged",
        ),
        ("g**2", "g.abs()", "mean of squares"),
        ("square**0.5", "square", "the root"),
        ("return w - rate", "return w + rate", "uphill"),
    ],
    "9.2": [
        ("(s + 1) / warmup", "s / warmup", "factor 0"),
        ("min(1.0, rising, falling)", "min(1.0, falling)", "no warm-up"),
        ("min(1.0, rising, falling)", "min(1.0, rising)", "stays"),
        (
            "falling = (steps - s) / decay",
            "falling = 0.5 + 0.5 * math.cos(math.pi * (s - warmup) / (steps - warmup)) "
            "if s >= warmup else 1.0",
            "cosine",
        ),
        ("return rates", "return rates[::-1]", "turned round"),
        (
            "falling = (steps - s) / decay",
            "falling = (steps - s) / (steps - warmup) if steps - s <= decay else 1.0",
            "begin at 1",
        ),
    ],
    "9.3": [
        (0.125, "one step"),
        (0.5, "8 and not 4"),
        (4, "2 is divided"),
        (8, "that is the curvature"),
        (2, "of 4 w squared"),
    ],
    "9.4": [
        (5, "not each number"),
        (6, "above the clip"),
        (0.3, "sum of squares"),
        (12, "5 / 10"),
        (30 / 14, "sum of the numbers"),
    ],
    "9.5": [
        (84, "is missing"),
        (14, "weights alone"),
        (98, "gradient counts"),
        (7, "one byte"),
        (56, "both means"),
        (200, "too large"),
    ],
}
