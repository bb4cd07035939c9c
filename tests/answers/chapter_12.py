"""Answers of readers: right ones written differently, and edits that spoil the first of them."""

RIGHT = {
    "12.1": [
        """
def lora(x, W, A, U, alpha):
    change = (x @ A.T) @ U.T
    return x @ W.T + alpha / A.shape[0] * change
""",
        """
def lora(x, W, A, U, alpha):
    merged = W + U @ A * (alpha / U.shape[1])
    return torch.nn.functional.linear(x, merged)
""",
    ],
    "12.2": [
        """
def dpo(good, bad, good_ref, bad_ref, beta):
    margin = (good - good_ref) - (bad - bad_ref)
    losses = -(beta * margin).sigmoid().log()
    return losses.mean()
""",
        """
def dpo(good, bad, good_ref, bad_ref, beta):
    margin = beta * (good - bad) - beta * (good_ref - bad_ref)
    return torch.nn.functional.softplus(-margin).mean()
""",
    ],
    "12.3": [
        """
def answer_loss(losses, is_answer):
    return losses[is_answer].mean()
""",
        """
def answer_loss(losses, is_answer):
    return (losses * is_answer).sum() / is_answer.sum()
""",
    ],
    "12.4": [1.5625, 100 * 8 / 512],
    "12.5": [0.693147, "0.69315"],
}
WRONG = {
    "12.1": [
        (" + alpha / A.shape[0] * change", "", "matrix alone"),
        ("x @ W.T + ", "", "is missing"),
        (" / A.shape[0]", "", "divided by the rank"),
        ("alpha / A.shape[0] * change", "change", "not scaled"),
        ("alpha / A.shape[0]", "A.shape[0] / alpha", "turned round"),
        (
            "x @ W.T + alpha / A.shape[0] * change",
            "alpha / A.shape[0] * (x @ W.T + change)",
            "frozen output",
        ),
        ("x @ W.T + ", "x @ W.T - ", "subtracted"),
        ("A.shape[0]", "A.shape[1]", "by the width"),
        ("A.T", "A", "raised RuntimeError"),
    ],
    "12.2": [
        ("-(beta", "(beta", "sign is turned"),
        ("beta * margin", "-beta * margin", "prefers the bad"),
        ("(good - good_ref) - (bad - bad_ref)", "good - bad", "is not used"),
        (
            "(good - good_ref) - (bad - bad_ref)",
            "good + good_ref - bad - bad_ref",
            "added",
        ),
        ("beta * margin", "margin", "beta is not used"),
        ("beta * margin", "margin / beta", "divided by beta"),
        ("-(beta * margin)", "-beta * (margin)", "outside"),
        ("mean()", "sum()", "sum over pairs"),
        (".log()", "", "logarithm is missing"),
        ("(beta * margin)", "(beta * margin).mean()", "of the margins"),
    ],
    "12.3": [
        ("[is_answer]", "", "count, too"),
        ("[is_answer]", "[~is_answer]", "these are the questions"),
        ("losses[is_answer]", "(losses * is_answer)", "number of all tokens"),
        ("mean()", "sum()", "this is the sum"),
        (
            "losses[is_answer].mean()",
            "((losses * is_answer).sum(1) / is_answer.sum(1)).mean()",
            "one vote",
        ),
        ("mean()", "sum() / len(losses)", "number of answers"),
        ("losses[is_answer]", "losses[:, 1:][is_answer[:, :-1]]", "one place late"),
    ],
    "12.4": [
        (0.78125, "two matrices"),
        (0.015625, "percent are asked"),
        (4_096, "number of parameters"),
        (0.0122070, "not of 4 by 4"),
        (98.4375, "frozen"),
    ],
    "12.5": [
        (0, "the margin"),
        (0.5, "logarithm is missing"),
        (1, "in bits"),
        (-0.693147, "not negative"),
        (0.0693147, "not the loss"),
    ],
}
