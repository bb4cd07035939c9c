"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "5.1": [
        """
def layer_norm(x):
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / (variance + 1e-5).sqrt()
""",
        """
def layer_norm(x):
    return torch.stack([
        (row - row.mean()) / torch.sqrt(((row - row.mean()) ** 2).mean() + 1e-5)
        for row in x
    ])
""",
    ],
    "5.2": [
        """
def fold(gain, bias, weight):
    return weight * gain, weight @ bias
""",
        """
def fold(gain, bias, weight):
    new = torch.stack([row * gain for row in weight])
    return [new, (weight * bias).sum(1)]
""",
    ],
    "5.3": [3 / 5**0.5, "1.3416408"],
    "5.4": [0.8**24, 0.004722],
    "5.5": [38_400, "38400"],
    "5.6": [
        """
def rms_norm(x, gain):
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return gain * x / (mean_square + 1e-5).sqrt()
""",
        """
def rms_norm(x, gain):
    return torch.stack([row * gain * (row @ row / len(row) + 1e-5) ** -0.5 for row in x])
""",
    ],
}
WRONG = {
    "5.1": [
        ("dim=-1", "dim=0", "not each column"),
        (
            "centred = x - x.mean(dim=-1, keepdim=True)",
            "centred = x",
            "RMSNorm",
        ),
        (" / (variance + 1e-5).sqrt()", "", "not divided"),
        (
            "centred.square().mean(dim=-1, keepdim=True)",
            "x.var(dim=-1, keepdim=True)",
            "by D - 1",
        ),
        ("(variance + 1e-5).sqrt()", "(variance.sqrt() + 1e-5)", "inside"),
        (" + 1e-5", "", "is missing"),
        ("(variance + 1e-5).sqrt()", "(variance + 1e-5)", "not by the variance"),
        ("keepdim=True", "keepdim=False", "raised RuntimeError"),
    ],
    "5.2": [
        ("weight * gain", "weight * gain[:, None]", "columns"),
        ("weight @ bias", "bias", "go through"),
        ("weight @ bias", "weight @ (gain * bias)", "not multiplied by the gain"),
        ("weight * gain", "weight / gain", "should multiply"),
        ("weight @ bias", "weight.T @ bias", "transposed"),
        ("weight * gain", "weight", "the old one"),
    ],
    "5.3": [
        (3, "not yet divided"),
        (0.6, "root of the variance"),
        (3 / (20 / 3) ** 0.5, "not by 3"),
        (7 / 21**0.5, "RMSNorm"),
        (-3 / 5**0.5, "first number"),
    ],
    "5.4": [
        (19.2, "multiplies what"),
        (0.8, "after one part"),
        (1 - 0.8**24, "what is lost"),
        (1 - 24 * 0.2, "a fifth"),
        (1.25**24, "growth"),
    ],
    "5.5": [
        (25 * 768, "bias has D"),
        (24 * 2 * 768, "final norm"),
        (13 * 2 * 768, "two norms"),
        (2 * 768, "one norm"),
        (50, "each dimension"),
    ],
    "5.6": [
        ("square().mean", "square().sum", "added up"),
        ("gain * x", "x", "gain is missing"),
        ("gain * x", "x / gain", "does not divide"),
        ("dim=-1", "dim=0", "not each column"),
        (".sqrt()", "", "not by the mean square"),
        (" + 1e-5", "", "is missing"),
        ("(mean_square + 1e-5).sqrt()", "(mean_square.sqrt() + 1e-5)", "inside"),
        (
            "    mean_square",
            "    x = x - x.mean(dim=-1, keepdim=True)\n    mean_square",
            "LayerNorm",
        ),
    ],
}
