"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "16.1": [
        """
def with_temperature(logits, temperature):
    return (logits / temperature).softmax(0)
""",
        """
def with_temperature(logits, temperature):
    powers = logits.softmax(0) ** (1 / temperature)
    return powers / powers.sum()
""",
    ],
    "16.2": [
        """
def top_k(logits, k):
    smallest = logits.topk(k).values[-1]
    kept = logits >= smallest
    return logits.masked_fill(~kept, -math.inf).softmax(0)
""",
        """
def top_k(logits, k):
    result = torch.zeros_like(logits)
    places = logits.argsort(descending=True)[:k]
    result[places] = logits[places].exp()
    return result / result.sum()
""",
    ],
    "16.3": [
        """
def top_p(probabilities, p):
    ordered, places = probabilities.sort(descending=True)
    kept = ordered.cumsum(0) - ordered < p
    result = torch.zeros_like(probabilities)
    result[places[kept]] = ordered[kept]
    return result / result.sum()
""",
        """
def top_p(probabilities, p):
    total = 0.0
    result = [0.0] * len(probabilities)
    for place in sorted(range(len(result)), key=lambda i: -probabilities[i]):
        if total >= p:
            break
        result[place] = float(probabilities[place])
        total += result[place]
    return torch.tensor(result) / total
""",
    ],
    "16.4": [0.36, 0.4 * 0.9],
    "16.5": [0.7, 0.3 + 0.3 + 0.1],
}
WRONG = {
    "16.1": [
        ("logits / temperature", "logits * temperature", "flatten"),
        (" / temperature", "", "not used"),
        (
            "(logits / temperature).softmax(0)",
            "logits.softmax(0) / temperature",
            "after the",
        ),
        (".softmax(0)", "", "these are logits"),
        ("softmax", "log_softmax", "logarithms"),
        (
            "(logits / temperature)",
            "(logits.softmax(0) / temperature)",
            "second softmax",
        ),
    ],
    "16.2": [
        (
            "logits.masked_fill(~kept, -math.inf).softmax(0)",
            "logits.softmax(0) * kept",
            "add up to 1",
        ),
        (">=", ">", "one more should stay"),
        ("topk(k)", "topk(k + 1)", "too many"),
        (
            "topk(k).values[-1]\n    kept = logits >= smallest",
            "topk(k, largest=False).values[-1]\n    kept = logits <= smallest",
            "the largest should",
        ),
        ("-math.inf", "0", "set to 0"),
        (".softmax(0)", ".softmax(0).sort(descending=True).values", "own place"),
        (
            "logits.masked_fill(~kept, -math.inf).softmax(0)",
            "kept / kept.sum()",
            "same probability",
        ),
    ],
    "16.3": [
        (" / result.sum()", "", "add up to 1"),
        (
            "    kept = ordered.cumsum(0) - ordered < p\n",
            "    kept = ordered.cumsum(0) <= p\n    kept[0] = True\n",
            "reaches p is missing",
        ),
        (
            "    kept = ordered.cumsum(0) - ordered < p\n",
            "    kept = (ordered.cumsum(0) - ordered < p).roll(1)\n    kept[0] = True\n",
            "too many",
        ),
        ("descending=True", "descending=False", "unlikeliest"),
        (
            "probabilities.sort(descending=True)",
            "probabilities, torch.arange(len(probabilities))",
            "not sorted",
        ),
        (
            "result / result.sum()",
            "(result / result.sum()).sort(descending=True)[0]",
            "own place",
        ),
    ],
    "16.4": [
        (0.25, "greedy"),
        (0.1, "not in the beam"),
        (1.3, "not added"),
        (0.9, "last token alone"),
        (0.61, "were added"),
    ],
    "16.5": [
        (0.3, "refusal"),
        (0.8333333, "averaged"),
        (1, "cut off"),
        (0.35, "independent"),
        (0.5, "not the only"),
    ],
}
