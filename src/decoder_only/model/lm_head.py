"""The language-model head: from a vector at each position to a distribution over what comes next.

    logits[b, s, v] = x[b, s, :] . W[v, :]
    P(ids[b, s + 1] = v | ids[b, :s + 1]) = softmax over v of logits[b, s, v]

Training minimises the mean surprise at the token that really came, the cross-entropy. W may be
the token embedding itself: one matrix, read in both directions. Chapter 7.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from decoder_only.model.embeddings import fresh_table

IGNORED = -1
"""The target that the loss leaves out, such as padding after the last token of a window."""


class LMHead(nn.Module):
    """A linear map from the residual stream to one logit per vocabulary entry.

    Args:
        d_model: D, width of the residual stream.
        vocab_size: V, number of logits. A GPU multiplies fastest where 64 divides it; in training
            torch.compile fills other sizes up where it measures that this is faster.
        tied: the head has no matrix of its own; each call gives it the token embedding's.
        scale: factor on the logits.
        soft_cap: bends the logits so that none exceeds it: cap * tanh(logit / cap), which leaves
            small ones nearly as they are; None for no bound.

    Source: Press & Wolf (2017) for sharing; Gemma Team (2024) for the cap.
    """

    def __init__(
        self,
        *,
        d_model: int,
        vocab_size: int,
        tied: bool = False,
        scale: float = 1.0,
        soft_cap: float | None = None,
    ) -> None:
        super().__init__()
        self.scale, self.soft_cap = scale, soft_cap
        self.register_parameter("weight", None)
        if not tied:
            self.weight = fresh_table(vocab_size, d_model)

    def forward(
        self, x: Float[Tensor, "*b d"], table: Float[Tensor, "v d"] | None = None
    ) -> Float[Tensor, "*b v"]:
        """Unnormalized log-probabilities of the next token.

        Args:
            x: the residual stream, normalized.
            table: the matrix that a tied head reads; a head of its own needs none.
        """
        weight = self.weight if table is None else table
        return _logits(x, weight, self.scale, self.soft_cap)


def _logits(
    x: Tensor, weight: Tensor, scale: float = 1.0, soft_cap: float | None = None
) -> Tensor:
    logits = F.linear(x if scale == 1 else scale * x, weight)
    return logits if soft_cap is None else soft_cap * torch.tanh(logits / soft_cap)


def next_token_loss(
    logits: Float[Tensor, "b s v"],
    targets: Int[Tensor, "b s"],
    *,
    ignore_index: int = IGNORED,
    reduction: str = "mean",
) -> Float[Tensor, "..."]:
    """Cross-entropy of the tokens that really came, in nats.

    Computed in float32 at least, because in bfloat16 the log of a sum over V terms loses its
    digits.

    Args:
        logits: the model's output at positions 0..S-1.
        targets: the ids one position later, so `targets[:, s] == ids[:, s + 1]`.
        ignore_index: targets with this value do not count.
        reduction: "mean" over the targets that count, "sum", or "none" for shape (b, s).

    Raises:
        ValueError: if the shapes do not agree.
    """
    _check_shapes("logits", logits, targets)
    loss = F.cross_entropy(
        logits.flatten(0, 1).to(torch.promote_types(logits.dtype, torch.float32)),
        targets.flatten().long(),
        ignore_index=ignore_index,
        reduction=reduction,
    )
    return loss.view(targets.shape) if reduction == "none" else loss


def sliced_next_token_loss(
    hidden: Float[Tensor, "b s d"],
    weight: Float[Tensor, "v d"],
    targets: Int[Tensor, "b s"],
    *,
    scale: float = 1.0,
    soft_cap: float | None = None,
    ignore_index: int = IGNORED,
    reduction: str = "mean",
    n_slices: int = 8,
) -> Float[Tensor, ""]:
    """`next_token_loss` of a head's logits, without ever holding those of the whole batch.

    A batch's logits are its largest tensor: B S V numbers, in training three times over. Here
    the B S positions are taken in slices. While the logits of a slice exist, the loss is added
    up, and so are the gradients, softmax - onehot pulled back to the hidden states and to the
    head's matrix: B S D and V D numbers, which wait for the backward pass. Nothing is computed
    twice. Gradients are the plain loss's within rounding; they have no gradients themselves.

    Args:
        hidden: what the head reads, from `GPT.hidden`.
        weight: the head's matrix, `GPT.head_weight`.
        targets, ignore_index: see `next_token_loss`.
        scale, soft_cap: see `LMHead`.
        reduction: "mean" over the targets that count, or "sum".
        n_slices: at most so many slices, 1 or more; the peak of memory falls with it.

    Raises:
        ValueError: if the shapes do not agree, or for another reduction.

    Source: the idea of gradients in the forward pass is from Hsu et al. (2024), Liger Kernel.
    """
    _check_shapes("hidden states", hidden, targets)
    if reduction not in ("mean", "sum"):
        raise ValueError(f"{reduction=} must be 'mean' or 'sum'")
    if n_slices < 1:
        raise ValueError(f"{n_slices=} must be 1 or more")
    rows, targets = hidden.flatten(0, 1), targets.flatten().long()
    settings = scale, soft_cap, ignore_index, n_slices, torch.is_grad_enabled()
    loss = _SlicedLoss.apply(rows, weight, targets, *settings)
    return loss / (targets != ignore_index).sum() if reduction == "mean" else loss


class _SlicedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, x, weight, targets, scale, soft_cap, ignore_index, n_slices, is_training
    ):
        exact = torch.promote_types(x.dtype, torch.float32)
        loss, to_x = x.new_zeros((), dtype=exact), []
        to_weight = torch.zeros_like(weight, dtype=exact)
        slices = zip(x.chunk(n_slices), targets.chunk(n_slices), strict=True)
        for part, target in slices:
            logits = _logits(part, weight, scale, soft_cap).to(exact)
            counts = target != ignore_index
            column = target.where(counts, 0)[:, None]
            log_probs = logits.log_softmax(-1)
            surprise = -log_probs.gather(-1, column)
            loss = loss + (surprise[:, 0] * counts).sum()
            if not is_training:
                continue
            # The gradient of the logits: softmax - onehot, by the chain rule through scale and cap.
            to_logits = log_probs.exp_()
            to_logits.scatter_add_(-1, column, -torch.ones_like(surprise))
            to_logits *= scale * counts[:, None].to(exact)
            if soft_cap is not None:
                to_logits *= 1 - (logits / soft_cap).square()
            to_logits = to_logits.to(weight.dtype)
            to_x.append(to_logits @ weight)
            # Sums over thousands of positions may overflow float16; a power of two rounds nothing.
            to_weight.add_(to_logits.T @ (part / 256), alpha=256)
        if to_x:
            ctx.save_for_backward(torch.cat(to_x).to(x.dtype), to_weight)
            ctx.dtype = weight.dtype
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        to_x, to_weight = ctx.saved_tensors
        to_x = (gradient * to_x).to(to_x.dtype)
        to_weight = (gradient * to_weight).to(ctx.dtype)
        return to_x, to_weight, *(None,) * 6  # none for targets and settings


def _check_shapes(name: str, given: Tensor, targets: Tensor) -> None:
    if given.shape[:-1] != targets.shape:
        raise ValueError(
            f"{name} of shape {tuple(given.shape)} need targets of shape "
            f"{tuple(given.shape[:-1])}, got {tuple(targets.shape)}"
        )


def perplexity(nats_per_token: float) -> float:
    """exp of the loss: among how many equally likely tokens the model is, in effect, undecided."""
    return math.inf if nats_per_token > 709 else math.exp(nats_per_token)


def bits_per_byte(nats_per_token: float, bytes_per_token: float) -> float:
    """The loss per byte of text in bits, which does not depend on the tokenizer.

    Args:
        nats_per_token: the mean cross-entropy.
        bytes_per_token: mean length of a token in bytes of UTF-8.
    """
    return nats_per_token / math.log(2) / bytes_per_token
