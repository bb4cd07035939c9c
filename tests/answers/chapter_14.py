"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "14.1": [
        """
def selectivity(x, labels, shuffled):
    columns = torch.cat([x, torch.ones(len(x), 1)], dim=1)
    accuracies = []
    for given in (labels, shuffled):
        weights = torch.linalg.lstsq(columns, given[:, None]).solution[:, 0]
        says = columns @ weights > 0.5
        accuracies.append((says == given.bool()).float().mean().item())
    return accuracies[0] - accuracies[1]
""",
        """
def selectivity(x, labels, shuffled):
    columns = torch.nn.functional.pad(x, (0, 1), value=1.0).double()
    both = torch.stack([labels, shuffled], dim=1).double()
    outputs = columns @ torch.linalg.pinv(columns) @ both
    right = (outputs.round().clamp(0, 1) == both).double().mean(0)
    return right[0] - right[1]
""",
    ],
    "14.2": [
        """
def attribution(parts, scale, gain, right, other):
    normalized = parts / scale * gain
    return normalized @ (right - other)
""",
        """
def attribution(parts, scale, gain, right, other):
    logits = [parts @ (gain * token) for token in (right, other)]
    return (logits[0] - logits[1]) / scale
""",
    ],
    "14.3": [0.6, (2 + 1) / (4 + 1)],
    "14.4": [2, "2"],
    "14.5": [2.71828, "2.7183"],
}
WRONG = {
    "14.1": [
        (" - accuracies[1]", "", "control is missing"),
        ("accuracies[0] - ", "", "control alone"),
        (
            "accuracies[0] - accuracies[1]",
            "accuracies[1] - accuracies[0]",
            "turned round",
        ),
        ("given.bool()", "labels.bool()", "by its own"),
        ("torch.cat([x, torch.ones(len(x), 1)], dim=1)", "x", "no constant"),
        ("> 0.5", "> 0", "threshold"),
        ("- accuracies[1]", "- 0.5", "one half"),
        (
            "    return accuracies[0] - accuracies[1]",
            "    return accuracies",
            "it is a list",
        ),
    ],
    "14.2": [
        (" / scale", "", "scale is not used"),
        (" * gain", "", "gain is not used"),
        ("/ scale", "/ parts.square().mean(1, keepdim=True).sqrt()", "of its own"),
        ("right - other", "other - right", "turned round"),
        (" - other", "", "other token"),
        (
            "normalized @ (right - other)",
            "(normalized @ (right - other)).sum()",
            "added up",
        ),
        ("/ scale", "* scale", "the norm divides"),
    ],
    "14.3": [
        (0.5, "is the zero"),
        (0.4, "not restored"),
        (3, "a share is asked"),
        (1, "has -1"),
        (0.75, "clean value"),
    ],
    "14.4": [
        (1, "same token"),
        (4, "position before"),
        (5, "present position"),
        (3, "too far"),
        (0, "number 1"),
    ],
    "14.5": [
        (3, "not that of"),
        (1, "its power"),
        (2, "base is e"),
        (7.389056, "not added"),
        (4.481689, "counts, too"),
        (0.367879, "turned round"),
    ],
}
