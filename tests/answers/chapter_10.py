"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "10.1": [
        """
def power_law(sizes, losses):
    x, y = sizes.log(), losses.log()
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    intercept = y.mean() - slope * x.mean()
    return float(intercept.exp()), float(-slope)
""",
        """
def power_law(sizes, losses):
    columns = torch.stack([torch.ones_like(sizes), -sizes.log10()], dim=1)
    found = torch.linalg.lstsq(columns, losses.log10()[:, None]).solution[:, 0]
    return [10 ** found[0].item(), found[1].item()]
""",
    ],
    "10.2": [
        """
def roofline_time(flops, moved, peak, bandwidth):
    return max(flops / peak, moved / bandwidth)
""",
        """
def roofline_time(flops, moved, peak, bandwidth):
    rate = min(peak, bandwidth * flops / moved)
    return flops / rate
""",
    ],
    "10.3": [1.2e18, 6 * 100e6 * 2e9],
    "10.4": [150, 300e12 / 2e12],
    "10.5": [0.1, 100**-0.5],
}
WRONG = {
    "10.1": [
        ("-slope", "slope", "wrong sign"),
        ("intercept.exp()", "intercept", "logarithm of A"),
        (
            "float(intercept.exp()), float(-slope)",
            "float(-slope), float(intercept.exp())",
            "exch",
        ),
        (
            "x, y = sizes.log(), losses.log()",
            "return _fit(sizes, losses)",
            "raised NameError",
        ),
        ("sizes.log()", "sizes", "exponential law"),
        (
            "y = sizes.log(), losses.log()",
            "y = sizes[[0, -1]].log(), losses[[0, -1]].log()",
            "first and the last",
        ),
        (
            "((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()",
            "(y - y.mean()).square().sum() / ((x - x.mean()) * (y - y.mean())).sum()",
            "fitted to losses",
        ),
        (
            "x, y = sizes.log(), losses.log()",
            "x, y = sizes.log10(), losses.log10()",
            "base 10",
        ),
    ],
    "10.2": [
        (
            "max(flops / peak, moved / bandwidth)",
            "flops / peak + moved / bandwidth",
            "waits",
        ),
        ("max", "min", "not the faster"),
        ("max(flops / peak, moved / bandwidth)", "flops / peak", "bytes are not"),
        (
            "max(flops / peak, moved / bandwidth)",
            "moved / bandwidth",
            "operations are not",
        ),
        ("return max", "return flops / max", "per second"),
        (
            "flops / peak, moved / bandwidth",
            "peak / flops, bandwidth / moved",
            "turned round",
        ),
        (
            "flops / peak, moved / bandwidth",
            "flops / bandwidth, moved / peak",
            "exchanged",
        ),
    ],
    "10.3": [
        (4e17, "forward pass alone"),
        (8e17, "both count"),
        (2e17, "more than one"),
        (6e17, "are two operations"),
        (6e8, "one token"),
    ],
    "10.4": [
        (2 / 300, "turned round"),
        (600e24, "not a product"),
        (300, "are given"),
        (18.75, "not bits"),
        (300e12, "the peak"),
    ],
    "10.5": [
        (10, "falls"),
        (0.01, "more slowly"),
        (0.9, "the share by which"),
        (-50, "not a factor"),
        (0.5, "not the new loss"),
    ],
}
