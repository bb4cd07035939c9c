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

__all__ = ["LMHead", "bits_per_byte", "next_token_loss", "perplexity"]


class LMHead(nn.Module):
    """A linear map from the residual stream to one logit per vocabulary entry.

    Args:
        d_model: D, width of the residual stream.
        vocab_size: V, number of logits.
        tied_to: the token embedding, whose weight of shape (v, d) the head then reads at each
            call, having none of its own; None for a matrix of its own.
        scale: factor on the logits.
        soft_cap: bends the logits so that none exceeds it: cap * tanh(logit / cap), which leaves
            small ones nearly as they are; None for no bound.

    Raises:
        ValueError: if the embedding's shape is another, or if the cap is not positive.

    Source: Press & Wolf (2017) for sharing; Gemma Team (2024) for the cap.
    """

    def __init__(
        self,
        *,
        d_model: int,
        vocab_size: int,
        tied_to: nn.Module | None = None,
        scale: float = 1.0,
        soft_cap: float | None = None,
    ) -> None:
        super().__init__()
        if soft_cap is not None and not soft_cap > 0:
            raise ValueError(
                f"soft_cap={soft_cap} cannot work: it must be positive or None"
            )
        if tied_to is not None and tied_to.weight.shape != (vocab_size, d_model):
            raise ValueError(
                f"cannot tie a head of shape ({vocab_size}, {d_model}) to a weight of shape "
                f"{tuple(tied_to.weight.shape)}; both must be (vocab_size, d_model)"
            )
        self.scale, self.soft_cap = scale, soft_cap
        # Within a tuple the embedding is not registered here too: it is saved, moved and counted
        # once, and whatever takes the place of its weight is what the head reads.
        self._tied_to = () if tied_to is None else (tied_to,)
        self.register_parameter("weight", None)
        if tied_to is None:
            self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
            nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b v"]:
        """Unnormalized log-probabilities of the next token."""
        weight = self._tied_to[0].weight if self._tied_to else self.weight
        x = x if self.scale == 1 else self.scale * x
        logits = _padded_linear(x, weight) if x.is_cuda else F.linear(x, weight)
        if self.soft_cap is None:
            return logits
        return self.soft_cap * torch.tanh(logits / self.soft_cap)


def _padded_linear(x: Tensor, weight: Tensor, multiple: int = 64) -> Tensor:
    """x W^T, computed with rows of zeros added to W and left out of the result.

    A GPU multiplies in tiles: 50,257 columns of logits take longer than 50,304.
    """
    vocab_size = weight.shape[0]
    padded = F.pad(weight, (0, 0, 0, -vocab_size % multiple))
    return F.linear(x, padded)[..., :vocab_size]


def next_token_loss(
    logits: Float[Tensor, "b s v"],
    targets: Int[Tensor, "b s"],
    *,
    ignore_index: int = -1,
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
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits of shape {tuple(logits.shape)} need targets of shape "
            f"{tuple(logits.shape[:-1])}, got {tuple(targets.shape)}"
        )
    loss = F.cross_entropy(
        logits.flatten(0, 1).to(torch.promote_types(logits.dtype, torch.float32)),
        targets.flatten().long(),
        ignore_index=ignore_index,
        reduction=reduction,
    )
    return loss.view(targets.shape) if reduction == "none" else loss


def perplexity(nats_per_token: float) -> float:
    """exp of the loss: among how many equally likely tokens the model is, in effect, undecided."""
    return math.exp(nats_per_token)


def bits_per_byte(nats_per_token: float, bytes_per_token: float) -> float:
    """The loss per byte of text in bits, which does not depend on the tokenizer.

    Args:
        nats_per_token: the mean cross-entropy.
        bytes_per_token: mean length of a token in bytes of UTF-8.
    """
    return nats_per_token / math.log(2) / bytes_per_token
