"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "15.1": [
        """
def missing_mass(draws):
    once = [name for name in draws if draws.count(name) == 1]
    return len(once) / len(draws)
""",
        """
def missing_mass(draws):
    seen, again = set(), set()
    for name in draws:
        (again if name in seen else seen).add(name)
    return torch.tensor(len(seen - again) / len(draws))
""",
    ],
    "15.2": [
        """
def calibration_error(confidence, right, bins):
    right = right.double()
    place = (confidence * bins).long().clamp(max=bins - 1)
    error = 0.0
    for b in place.unique():
        here = place == b
        gap = right[here].mean() - confidence[here].mean()
        error += gap.abs() * here.double().mean()
    return float(error)
""",
        """
def calibration_error(confidence, right, bins):
    place = (confidence * bins).long().clamp(max=bins - 1)
    difference = right.double() - confidence
    sums = torch.zeros(bins, dtype=torch.float64).index_add(0, place, difference)
    return sums.abs().sum() / len(right)
""",
    ],
    "15.3": [700, 100 * (4 + 3)],
    "15.4": [0.75, "0.75"],
    "15.5": [0.2, 200 / 1_000],
}
WRONG = {
    "15.1": [
        ("len(draws)", "len(set(draws))", "not of different names"),
        (" / len(draws)", " * 1.0", "number of names"),
        ("== 1", "> 1", "share of the rest"),
        ("len(once)", "len(set(draws))", "were counted; those drawn exactly once"),
        (
            "len(once) / ",
            "len([n for n in set(draws) if draws.count(n) == 2]) / ",
            "drawn twice",
        ),
        ("len(once) / len(draws)", "0.0", "not 0"),
        ("len(once)", "1", "no account"),
        ("len(once) / len(draws)", "once", "it is a list"),
    ],
    "15.2": [
        ("gap.abs()", "gap", "cancel"),
        ("here.double().mean()", "1 / len(place.unique())", "same weight"),
        (
            "right[here].mean() - confidence[here].mean()",
            "(right[here] - confidence[here]).abs().mean()",
            "for each answer",
        ),
        ("gap.abs()", "gap ** 2", "squared"),
        (
            "error += gap.abs() * here.double().mean()",
            "error = max(error, gap.abs())",
            "largest",
        ),
        (" * here.double().mean()", "", "without weights"),
        ("right.double()", "1 - right.double()", "exchanged"),
        ("place.unique()", "[place]", "in one bin"),
    ],
    "15.3": [
        (7, "one person"),
        (400, "the towns"),
        (300, "the professions"),
        (1_200, "add up"),
        (2_400, "number of choices"),
        (485.2030, "in nats"),
    ],
    "15.4": [
        (0.5, "as much as"),
        (0.25, "being wrong"),
        (0.3333333, "ratio"),
        (1, "certain"),
        (0, "costs nothing"),
    ],
    "15.5": [
        (0.4, "not of different"),
        (0.5, "those seen once"),
        (0.8, "more often"),
        (0.3, "do not count"),
        (0, "still come"),
    ],
}
