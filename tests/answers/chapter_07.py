"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "7.1": [
        """
def cross_entropy(logits, targets):
    total = logits.logsumexp(dim=1)
    chosen = logits[torch.arange(len(targets)), targets]
    return (total - chosen).mean()
""",
        """
def cross_entropy(logits, targets):
    return torch.nn.functional.cross_entropy(logits, targets)
""",
    ],
    "7.2": [
        """
def inputs_and_targets(ids):
    inputs = ids[:, :-1]
    targets = ids[:, 1:]
    return inputs, targets
""",
        """
def inputs_and_targets(ids):
    S = ids.shape[1] - 1
    return [ids.narrow(1, 0, S), ids.narrow(1, 1, S)]
""",
    ],
    "7.3": [1.5, 3 / 2],
    "7.4": [10.004, "10.00415"],
    "7.5": [9.0109, 13 * 0.69314718],
    "7.6": [5, "5"],
}
WRONG = {
    "7.1": [
        ("logits.logsumexp(dim=1)", "logits.exp().sum(1).log()", "overflow"),
        ("total - chosen", "chosen - total", "sign"),
        ("mean()", "sum()", "the mean is asked"),
        ("(total - chosen).mean()", "(total - chosen).mean() / math.log(2)", "in bits"),
        (
            "logits.logsumexp(dim=1)",
            "logits.logsumexp(dim=0)[targets]",
            "over the vocabulary",
        ),
        (
            "(total - chosen).mean()",
            "(chosen - total).exp().mean()",
            "mean probability",
        ),
        (
            "(total - chosen).mean()",
            "-(chosen - total).exp().mean().log()",
            "after the mean",
        ),
        (
            "(total - chosen).mean()",
            "-logits.log_softmax(1).mean()",
            "only the targets",
        ),
        ("(total - chosen).mean()", "-chosen.mean()", "not logarithms"),
    ],
    "7.2": [
        ("return inputs, targets", "return targets, inputs", "exchanged"),
        ("ids[:, 1:]", "ids[:, :-1]", "not the input itself"),
        (
            "return inputs, targets",
            "return ids[:-1], ids[1:]",
            "not positions",
        ),
        ("return inputs, targets", "return ids, ids.roll(-1, 1)", "wraps round"),
        ("return inputs, targets", "return ids[:, :-2], ids[:, 2:]", "two tokens away"),
    ],
    "7.3": [
        (6, "the mean is asked"),
        (1.0397207, "in nats"),
        (2, "counts, too"),
        (1.0931094, "mean probability"),
        (2.8284271, "perplexity"),
    ],
    "7.4": [
        (4.93491, "not 2"),
        (200.909281, "not 10"),
        (3.3225266, "in bits"),
        (0.0999585, "its inverse"),
        (2.303, "that is the loss"),
    ],
    "7.5": [
        (13, "in bits"),
        (1 / 8_192, "probability"),
        (8_192, "perplexity"),
        (-9.0109133, "not negative"),
        (3.9133899, "base 10"),
    ],
    "7.6": [
        (1, "needs logits"),
        (2, "largest logit"),
        (3, "move together"),
        (4, "overflows"),
        (6, "total minus chosen"),
        (7, "mean over positions"),
        (8, "there are lines 1 to 7"),
        (None, "this is a NoneType"),
    ],
}
MENDED = {"7.6": ("7.1", "    chosen = shifted.gather(1, targets[:, None])[:, 0]")}
"""The exercise whose answer the code is, once its faulty line reads so."""
