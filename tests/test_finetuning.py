"""Fine-tuning: equal to references that share no code with it, and refused where it must."""

import itertools
import re

import pytest
import torch
from ladder import PRECISIONS, build, compare, normal, random_ids, results
from torch import nn

from decoder_only.model.lm_head import IGNORED, next_token_loss
from decoder_only.training.optimizers import parameter_groups
from decoder_only.variants.finetuning import (
    AnswerTree,
    Classifier,
    LoRA,
    add_lora,
    answer_rows,
    dpo_loss,
    grpo_loss,
    merge_lora,
    optimal_policy,
)

every_precision = pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
IDS = random_ids(4, 6)
PROMPTS, ANSWERS = [[1, 2], [3, 4, 5], [6]], [[7, 8], [9], [10, 11, 12]]


def lora(dtype=torch.float64, *, rank=3, alpha=6.0, n_in=5, n_out=7) -> LoRA:
    """A layer whose addition is not zero."""
    linear = nn.Linear(n_in, n_out).to(dtype)
    layer = LoRA(linear, rank=rank, alpha=alpha)
    with torch.no_grad():
        layer.up.copy_(normal(n_out, rank, seed=1, dtype=dtype, grad=False))
    return layer


# ------------------------------------------------------------------------------------ classifier


def test_a_classifier_reads_the_last_token_and_nothing_behind_it():
    model, lengths = build(), torch.tensor([6, 3, 1, 4])
    asked = Classifier(model, 3)
    nn.init.normal_(asked.classes.weight, generator=torch.Generator().manual_seed(2))
    found = asked(IDS, lengths)
    for row, (ids, length) in enumerate(zip(IDS, lengths, strict=True)):
        alone = model.hidden(ids[None, :length])[0, -1]
        by_hand = alone @ asked.classes.weight.T + asked.classes.bias
        torch.testing.assert_close(found[row], by_hand, rtol=0, atol=1e-12)
    changed = IDS.clone()
    changed[1, 3:] = 0
    assert torch.equal(asked(changed, lengths)[1], found[1])


def test_at_first_all_classes_are_alike_and_every_weight_can_move():
    model = build(tied=False)
    asked, lengths = Classifier(model, 3), torch.full((4,), 6)
    assert not asked(IDS, lengths).any()
    with torch.no_grad():
        asked.classes.weight.add_(1.0)
    asked(IDS, lengths).square().sum().backward()
    moved = {n for n, p in asked.named_parameters() if p.grad is not None}
    left = {n for n, _ in asked.named_parameters()} - moved
    assert left == {"model.head.weight"}  # the old head is not asked


# ------------------------------------------------------------------------------------------ LoRA


@every_precision
def test_lora_equals_a_map_with_the_product_in_its_matrix(dtype):
    layer = lora(dtype)
    x = normal(2, 4, 5, seed=3, dtype=dtype)
    weight = layer.linear.weight.detach()
    product = torch.einsum("fr,rd->fd", layer.up, layer.down) * (6.0 / 3)
    theirs = torch.einsum("bsd,fd->bsf", x, weight + product) + layer.linear.bias
    leaves = x, layer.up, layer.down
    compare("lora", results(layer(x), *leaves), results(theirs, *leaves))


def test_at_first_nothing_is_changed_and_only_the_addition_moves():
    model = build()
    before = model(IDS)
    moving = add_lora(model, rank=2)
    assert torch.equal(model(IDS), before)
    names = {n for n, p in model.named_parameters() if p.requires_grad}
    assert {n.rpartition(".")[2] for n in names} == {"up", "down"}
    assert len(moving) == len(names) == 2 * 6 * len(model.blocks)
    model(IDS).square().sum().backward()
    assert all((p.grad is None) != p.requires_grad for p in model.parameters())
    groups = parameter_groups(model, weight_decay=0.1)
    assert [len(group["params"]) for group in groups] == [len(moving), 0]


def test_parameters_are_as_many_as_the_formula_says():
    model = build()
    shapes = [p.shape for n, p in model.blocks.named_parameters() if p.ndim == 2]
    moving = add_lora(model, rank=3)
    assert sum(p.numel() for p in moving) == 3 * sum(a + b for a, b in shapes)


def test_targets_are_chosen_by_name():
    model = build(activation="swiglu")
    moving = add_lora(model, rank=1, targets=("query", "gate"))
    assert len(moving) == 2 * 2 * len(model.blocks)
    assert isinstance(model.blocks[0].attention.query, LoRA)
    assert isinstance(model.blocks[0].mlp.gate, LoRA)
    assert not isinstance(model.blocks[0].attention.key, LoRA)


@every_precision
def test_merged_equals_unmerged_and_has_the_old_names(dtype):
    model = build(dtype)
    names = list(model.state_dict())
    for parameter in add_lora(model, rank=2, alpha=3.0):
        with torch.no_grad():
            parameter.copy_(0.2 * normal(*parameter.shape, seed=4, grad=False))
    unmerged = model(IDS).detach()
    model.blocks[0].mlp.up.merged()  # asks, and changes nothing
    assert torch.equal(model(IDS), unmerged)
    assert not torch.allclose(unmerged, build(dtype)(IDS))
    merge_lora(model)
    compare("merged", model(IDS).detach(), unmerged)
    assert list(model.state_dict()) == names
    assert all(p.requires_grad for p in model.parameters())
    assert not any(isinstance(part, LoRA) for part in model.modules())


@pytest.mark.parametrize(("n_in", "n_out"), [(4, 6), (6, 4), (5, 5)])
def test_full_rank_reaches_any_matrix(n_in, n_out):
    layer = lora(rank=min(n_in, n_out), alpha=2.0, n_in=n_in, n_out=n_out)
    wanted = normal(n_out, n_in, seed=5, grad=False)
    u, s, v = torch.linalg.svd(wanted - layer.linear.weight, full_matrices=False)
    with torch.no_grad():
        layer.up.copy_(u * s / layer.scale)
        layer.down.copy_(v)
    torch.testing.assert_close(layer.merged().weight, wanted, rtol=0, atol=1e-12)


def test_with_an_orthogonal_down_that_stays_it_is_full_fine_tuning():
    """Plain gradient descent, step by step: the product moves as the matrix would."""
    layer, plain = lora(rank=5, alpha=5.0), nn.Linear(5, 7).double()
    plain.load_state_dict(layer.linear.state_dict())
    with torch.no_grad():
        layer.up.zero_()
        layer.down.copy_(torch.linalg.qr(normal(5, 5, seed=6, grad=False))[0])
    for step in range(5):
        x, y = (normal(9, n, seed=10 + 2 * step + n, grad=False) for n in (5, 7))
        slopes = [
            torch.autograd.grad((part(x) - y).square().mean(), weight)[0]
            for part, weight in ((layer, layer.up), (plain, plain.weight))
        ]
        with torch.no_grad():
            layer.up -= 0.5 * slopes[0]
            plain.weight -= 0.5 * slopes[1]
    torch.testing.assert_close(layer.merged().weight, plain.weight, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rank": 0}, "rank=0 must be from 1 to 10"),
        ({"rank": 11}, "rank=11 must be from 1 to 10"),
        ({"rank": 1, "targets": ("queries",)}, "targets=('queries',) must be"),
        ({"rank": 1, "targets": ()}, "targets=() must be some of down"),
    ],
)
def test_what_cannot_be_added_is_refused_and_the_model_is_as_it_was(settings, said):
    model = build()
    with pytest.raises(ValueError, match=re.escape(said)):
        add_lora(model, **settings)
    assert all(p.requires_grad for p in model.parameters())
    assert not any(isinstance(part, LoRA) for part in model.modules())


def test_an_addition_is_not_added_to():
    model = build()
    add_lora(model, rank=1, targets=("query",))
    with pytest.raises(ValueError, match="which have no addition yet"):
        add_lora(model, rank=1, targets=("query",))


# --------------------------------------------------------------------------------------- answers


def test_only_answers_are_asked_for():
    inputs, targets = answer_rows(PROMPTS, ANSWERS, pad_id=0)
    assert inputs.tolist() == [[1, 2, 7], [3, 4, 5], [6, 10, 11]]
    asked = [row[row != IGNORED].tolist() for row in targets]
    assert asked == ANSWERS
    for row, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        whole = [*prompt, *answer]
        assert inputs[row, : len(whole) - 1].tolist() == whole[:-1]
        assert (targets[row] != IGNORED).nonzero()[0, 0] == len(prompt) - 1


@every_precision
def test_the_loss_on_answers_equals_a_sum_over_their_tokens(dtype):
    model = build(dtype)
    leaves = list(model.parameters())
    inputs, targets = answer_rows(PROMPTS, ANSWERS)
    ours = next_token_loss(model(inputs), targets)
    total, count = 0.0, 0
    for prompt, answer in zip(PROMPTS, ANSWERS, strict=True):
        for size, token in enumerate(answer):
            logits = model(torch.tensor([[*prompt, *answer[:size]]]))[0, -1]
            total = total - (logits[token] - logits.logsumexp(-1))
            count += 1
    compare("answers", results(ours, *leaves), results(total / count, *leaves))


@pytest.mark.parametrize(
    ("prompts", "answers", "said"),
    [
        ([[1]], [], "number of prompts=1 must"),
        ([], [], "number of prompts=0 must"),
        ([[1], []], [[2], [3]], "shortest=0 must"),
        ([[1]], [[]], "shortest=0 must"),
    ],
)
def test_rows_that_do_not_fit_are_refused(prompts, answers, said):
    with pytest.raises(ValueError, match=said):
        answer_rows(prompts, answers)


# ---------------------------------------------------------------------------------------- policies

CHOICES = [[1, 2], [1, 3, 4], [1, 3, 5, 6], [7], [8, 2]]


@every_precision
@pytest.mark.parametrize("tied", [True, False])
def test_a_tree_of_answers_equals_each_answer_on_its_own(dtype, tied):
    model = build(dtype, tied=tied, soft_cap=3.0)
    tree, leaves = AnswerTree(CHOICES), list(model.parameters())
    found = tree.log_probs(model, PROMPTS)
    rows = []
    for prompt in PROMPTS:
        scores = []
        for answer in CHOICES:
            score = 0.0
            for size, token in enumerate(answer):
                before = answer[:size]
                may = sorted(
                    {a[size] for a in CHOICES if a[:size] == before and a[size:]}
                )
                logits = model(torch.tensor([[*prompt, *before]]))[0, -1][may]
                score = score + (logits - logits.logsumexp(-1))[may.index(token)]
            scores.append(score)
        rows.append(torch.stack(scores))
    compare("answers", results(found, *leaves), results(torch.stack(rows), *leaves))
    assert found.exp().sum(1).tolist() == pytest.approx([1] * 3)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([[1, 2]], "number of answers=1 must"),
        (
            [[1, 2], [3], [1, 2, 4]],
            r"an answer=\(1, 2\) must be no beg",
        ),
        ([[1, 2], [1, 2]], r"an answer=\(1, 2\) must"),
    ],
)
def test_answers_that_cannot_be_told_apart_are_refused(answers, said):
    with pytest.raises(ValueError, match=said):
        AnswerTree(answers)


@pytest.mark.parametrize("prompts", [[], [[]], [[1], []]], ids=str)
def test_answers_need_a_prompt(prompts):
    with pytest.raises(ValueError, match="shortest prompt=0 must"):
        AnswerTree(CHOICES).log_probs(build(), prompts)


REFERENCE = normal(3, 5, seed=1, grad=False).log_softmax(-1)
REWARDS = normal(3, 5, seed=2, grad=False)


def objective(log_q, beta):
    q = log_q.exp()
    return (q * REWARDS).sum(1) - beta * (q * (log_q - REFERENCE)).sum(1)


def test_nothing_is_better_than_the_optimal_policy():
    beta, generator = 0.3, torch.Generator().manual_seed(3)
    best = optimal_policy(REFERENCE, REWARDS, beta=beta)
    log_z = (REFERENCE + REWARDS / beta).logsumexp(1)
    torch.testing.assert_close(objective(best, beta), beta * log_z, rtol=0, atol=1e-12)
    for size in (1e-3, 0.1, 1.0, 10.0):
        noise = torch.randn(200, *best.shape, generator=generator, dtype=best.dtype)
        other = (best + size * noise).log_softmax(-1)
        lost = objective(best, beta) - torch.stack([objective(x, beta) for x in other])
        assert (lost > 0).all()
        apart = (other.exp() * (other - best)).sum(-1)
        torch.testing.assert_close(lost, beta * apart, rtol=0, atol=1e-10)


@every_precision
def test_dpo_equals_the_formula_written_by_hand(dtype):
    parts = [normal(6, seed=i, dtype=dtype) for i in range(4)]
    ours = dpo_loss(*parts, beta=0.7)
    a, b, ra, rb = parts
    odds = (a.exp() / ra.exp()) ** 0.7 / ((b.exp() / rb.exp()) ** 0.7)
    theirs = -(odds / (1 + odds)).log().mean()
    compare("dpo", results(ours, *parts), results(theirs, *parts))


def test_preferences_lead_dpo_to_the_optimal_policy():
    """With the odds of Bradley and Terry the gradient of its mean is zero there, and only there."""
    beta, pairs = 0.5, list(itertools.permutations(range(5), 2))
    one, other = (torch.tensor(x) for x in zip(*pairs, strict=True))
    odds = torch.sigmoid(REWARDS[:, one] - REWARDS[:, other])

    def slope(log_q):
        scores = log_q.clone().requires_grad_()
        total = 0.0
        for row in range(3):
            for i, (a, b) in enumerate(pairs):
                x, y = scores[row, a][None], scores[row, b][None]
                p, q = REFERENCE[row, a][None], REFERENCE[row, b][None]
                total = total + odds[row, i] * dpo_loss(x, y, p, q, beta=beta)
        return torch.autograd.grad(total, scores)[0].abs().max().item()

    best = optimal_policy(REFERENCE, REWARDS, beta=beta)
    assert slope(best) < 1e-12
    assert slope(REFERENCE) > 1e-2


@every_precision
@pytest.mark.parametrize("divide", [True, False])
@pytest.mark.parametrize("penalty", ["loss", "reward"])
def test_grpo_equals_a_loop(dtype, divide, penalty):
    log_q = normal(3, 4, seed=1, dtype=dtype)
    log_p, rewards = (normal(3, 4, seed=i, dtype=dtype, grad=False) for i in (2, 3))
    settings = {"beta": 0.4, "penalty": penalty, "divide": divide}
    ours = grpo_loss(log_q, log_p, rewards, **settings)
    total = 0.0
    for q, p, r in zip(log_q, log_p, rewards, strict=True):
        if penalty == "reward":
            r = r - 0.4 * (q.detach() - p)
        mean = sum(r) / 4
        spread = (sum((x - mean) ** 2 for x in r) / 3).sqrt() + 1e-6
        for i in range(4):
            advantage = (r[i] - mean) / (spread if divide else 1)
            total = total - advantage * q[i]
            if penalty == "loss":
                ratio = p[i].exp() / q[i].exp()
                total = total + 0.4 * (ratio - ratio.log() - 1)
    compare("grpo", results(ours, log_q), results(total / 12, log_q))


def test_without_a_penalty_the_reference_does_not_matter():
    """Where it is so much likelier that the ratio overflows, too."""
    log_q, rewards = torch.tensor([[-60.0, -61.0]]), torch.tensor([[1.0, 0.0]])
    found = [grpo_loss(log_q, log_q + d, rewards, beta=0.0) for d in (0, 100)]
    assert found[0] == found[1]


def expected_slope(log_q, beta, penalty, n=2):
    """The mean gradient over all groups of n that q may draw, at the scores of q."""
    scores = log_q.clone().requires_grad_()
    total = 0.0
    for row in range(3):
        for pair in itertools.product(range(5), repeat=n):
            chance = scores[row, list(pair)].detach().exp().prod()
            drawn = [
                x[row, list(pair)][None]
                for x in (scores.log_softmax(-1), REFERENCE, REWARDS)
            ]
            loss = grpo_loss(*drawn, beta=beta, penalty=penalty, divide=False)
            total = total + chance * loss
    return torch.autograd.grad(total, scores)[0]


@pytest.mark.parametrize("n", [2, 3])
def test_with_the_penalty_in_the_reward_the_mean_gradient_is_the_objectives(n):
    beta = 0.5
    log_q = normal(3, 5, seed=4, grad=False).log_softmax(-1)
    scores = log_q.clone().requires_grad_()
    whole = objective(scores.log_softmax(-1), beta).sum()
    wanted = torch.autograd.grad(whole, scores)[0]
    # A group's mean holds each answer's own reward: of two, half of the gradient is left.
    found = expected_slope(log_q, beta, "reward", n)
    torch.testing.assert_close(found, -wanted * (1 - 1 / n), rtol=0, atol=1e-12)
    best = optimal_policy(REFERENCE, REWARDS, beta=beta)
    assert expected_slope(best, beta, "reward").abs().max() < 1e-12


def test_with_the_penalty_in_the_loss_it_is_that_of_the_other_divergence():
    """k3's slope, with the draws held fixed, is that of KL(p || q): it leads elsewhere."""
    beta = 0.5
    log_q = normal(3, 5, seed=4, grad=False).log_softmax(-1)
    scores = log_q.clone().requires_grad_()
    now = scores.log_softmax(-1)
    gain = (now.exp() * REWARDS).sum() / 2
    other = (REFERENCE.exp() * (REFERENCE - now)).sum()
    wanted = torch.autograd.grad(beta * other - gain, scores)[0]
    found = expected_slope(log_q, beta, "loss")
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    best = optimal_policy(REFERENCE, REWARDS, beta=beta)
    assert expected_slope(best, beta, "loss").abs().max() > 1e-2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: optimal_policy(REFERENCE, REWARDS, beta=0.0), "beta=0.0 must"),
        (lambda: dpo_loss(*[REFERENCE[0]] * 4, beta=-1.0), "beta=-1.0 must"),
        (lambda: grpo_loss(*[REFERENCE] * 3, beta=-1.0), "beta=-1.0 must"),
        (
            lambda: grpo_loss(*[REFERENCE] * 3, beta=1.0, penalty="k3"),
            "penalty='k3' must",
        ),
        (lambda: grpo_loss(*[REFERENCE[:, :1]] * 3, beta=1.0), "group=1 must"),
        (lambda: Classifier(build(), 1), "n_classes=1 must"),
        (
            lambda: Classifier(build(), 2)(IDS, torch.tensor([6, 7, 1, 1])),
            "lengths=7 must be from 1 to 6",
        ),
        (
            lambda: Classifier(build(), 2)(IDS, torch.tensor([6, 0, 1, 1])),
            "lengths=0 must be from 1 to 6",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
