"""What to train with what there is: a model's shape and its tokens, from a budget and a device.

    (6 N + 12 L D S) M = operations = devices x peak x utilization x seconds

A scaling law splits the budget between parameters and tokens; `scaling` counts what the split
costs, and how many sequences the memory holds. Nothing is built and nothing trained. Chapter 10.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from decoder_only.config import GPTConfig
from decoder_only.engine.checks import require
from decoder_only.engine.hardware import Device
from decoder_only.engine.monitor import flops_per_token
from decoder_only.laws import JointLaw, KaplanLaw
from decoder_only.presets import MODERN
from decoder_only.scaling import count_parameters, training_bytes

__all__ = ["Plan", "plan_training", "shape_for"]


def shape_for(
    n_parameters: int | float, *, vocab_size: int = 50_304, context_length: int = 2048
) -> GPTConfig:
    """A model of about so many parameters: heads of 64, D / L near 64, today's parts.

    Loss depends weakly on the shape within a factor of two or so (Kaplan et al., 2020, section
    3.1), so it is chosen for round numbers.

    Raises:
        ValueError: for fewer parameters than the smallest such model has, or for 1e15 or more.
    """
    if not n_parameters < 1e15:
        raise ValueError(
            f"a model of {n_parameters:.3g} parameters cannot be planned; stay below 1e15"
        )

    def config(d_model: int, n_layers: int) -> GPTConfig:
        return GPTConfig(
            vocab_size=vocab_size,
            context_length=context_length,
            d_model=d_model,
            n_layers=n_layers,
            n_heads=d_model // 64,
            **MODERN,
        )

    def ugliness(shape: GPTConfig) -> float:
        miss = sum(count_parameters(shape).values()) / n_parameters
        stretch = shape.d_model / shape.n_layers / 64
        return abs(math.log(stretch)) + 4 * abs(math.log(miss))

    shapes = []
    for d_model in range(64, 64 * 1024, 64):
        n_layers = round((n_parameters - vocab_size * d_model) / (12 * d_model**2))
        if n_layers < 1:
            break
        if n_layers < 2**16:  # which `GPTConfig` asks for
            shapes.append(config(d_model, n_layers))
    if not shapes:
        smallest = sum(count_parameters(config(64, 1)).values())
        raise ValueError(
            f"no model with {vocab_size} tokens has {n_parameters:.3g} parameters; the smallest "
            f"has {smallest:,}; ask for more, or take a smaller vocabulary"
        )
    return min(shapes, key=ugliness)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A training run on paper.

    Attributes:
        config: what to train.
        tokens: M, on how much.
        flops: C, operations that it takes, counted as the field does: see
            `monitor.flops_per_token`.
        device, n_devices, utilization: where, and the share of the peak that is reached.
        batch_size: sequences at a time on each device, which its memory holds.
        memory: bytes on each device, by what takes them; weights, gradients and optimizer are
            spread over the devices.
        law: which predicts the loss.
    """

    config: GPTConfig
    tokens: int | float
    flops: int | float
    device: Device
    n_devices: int
    utilization: int | float
    batch_size: int
    memory: Mapping[str, int | float]
    law: JointLaw | KaplanLaw

    @property
    def n_parameters(self) -> int:
        """N, all of them."""
        return sum(count_parameters(self.config).values())

    @property
    def seconds(self) -> float:
        """How long, at the utilization."""
        return self.flops / (self.n_devices * self.device.flops * self.utilization)

    @property
    def loss(self) -> float:
        """What the law predicts, in nats per token of the text that it was fitted to."""
        return self.law.loss(self.n_parameters, self.tokens)

    def memory_if(self, **way: object) -> int | float:
        """Bytes on each device where training goes another way; see `scaling.training_bytes`."""
        return sum(
            _memory(self.config, self.batch_size, self.n_devices, **way).values()
        )

    @property
    def training(self) -> dict[str, object]:
        """The fields of `TrainConfig` that train it.

        A step has about half a million tokens, as of the smaller GPT-3, but no plan has fewer than
        a thousand steps for that. The learning rate follows the rule of thumb in Kaplan et al.
        (2020), appendix D.6, from which it is time to depart once there are runs to look at.
        """
        each = self.batch_size * self.n_devices * self.config.context_length
        accumulation = max(1, int(min(2**19, self.tokens / 1000) // each))
        steps = max(1, round(self.tokens / (each * accumulation)))
        rate = max(1e-4, 0.003239 - 0.0001395 * math.log(self.n_parameters))
        return {
            "steps": steps,
            "batch_size": self.batch_size * self.n_devices * accumulation,
            "accumulation": accumulation,
            "optimizer": "adamw",
            "learning_rate": float(f"{rate:.1e}"),
            "warmup_steps": steps // 50,
            "evaluate_every": max(1, steps // 10),
        }


def plan_training(
    law: JointLaw | KaplanLaw,
    device: Device,
    *,
    n_devices: int = 1,
    hours: int | float | None = None,
    flops: int | float | None = None,
    parameters: int | float | None = None,
    tokens: int | float | None = None,
    utilization: int | float = 0.4,
    vocab_size: int = 50_304,
    context_length: int = 2048,
) -> Plan:
    """What to train with what there is.

    Give the budget as hours or as flops, and the law splits it; or fix parameters or tokens, and
    the budget gives the other; or fix both, and they give the budget. Parameters alone take the
    tokens that the law calls best for them. Shapes come in steps, and attention costs more than
    6 N a token: with the tokens fixed the budget is met within some per cent, else exactly.

    Kaplan's N leaves the embeddings out. Here it is taken for all parameters, which differ by
    less than a tenth from a billion on.

    Raises:
        ValueError: for a number that is not above 0, for two budgets, or for too much or too
            little of what decides; or if not even one sequence fits the device.
    """
    given = {"hours": hours, "flops": flops, "parameters": parameters, "tokens": tokens}
    for name, value in {**given, "n_devices": n_devices}.items():
        require(name, value, lambda x: x is None or x > 0, "above 0")
    wanted = "above 0, and 1 at most"
    require("utilization", utilization, lambda share: 0 < share <= 1, wanted)
    n_given = sum(given[name] is not None for name in ("hours", "flops"))
    both = parameters is not None and tokens is not None
    if n_given == 2 or (n_given == 1 and both):
        raise ValueError(
            "hours, flops, and parameters with tokens each fix the budget; give one of the three"
        )
    if n_given == 0 and parameters is None and tokens is None:
        raise ValueError("give hours, flops, parameters or tokens; one is enough")
    if hours is not None:
        flops = hours * 3600 * n_devices * device.flops * utilization
    sizes = {"vocab_size": vocab_size, "context_length": context_length}
    if parameters is None and tokens is None:
        parameters, _ = law.best_split(flops)
    elif flops is None and not both:
        parameters, tokens = _complete(law, parameters, tokens)
    elif parameters is None:
        parameters = _affordable(flops / tokens, **sizes)
    config = shape_for(parameters, **sizes)
    if tokens is None:
        tokens = flops / flops_per_token(config)
    flops = tokens * flops_per_token(config)
    batch_size, memory = _fill(config, device, n_devices)
    return Plan(
        config=config,
        tokens=tokens,
        flops=flops,
        device=device,
        n_devices=n_devices,
        utilization=utilization,
        batch_size=batch_size,
        memory=memory,
        law=law,
    )


def _complete(
    law: JointLaw | KaplanLaw,
    parameters: int | float | None,
    tokens: int | float | None,
) -> tuple[int | float, int | float]:
    """The other of the two, as the law splits the budget that contains the one."""
    low, high = 0.0, 40.0
    for _ in range(60):  # both grow with the budget; its logarithm's interval is halved
        middle = (low + high) / 2
        n, m = law.best_split(10**middle)
        too_small = n < parameters if tokens is None else m < tokens
        low, high = (middle, high) if too_small else (low, middle)
    n, m = law.best_split(10**high)
    return (parameters, m) if tokens is None else (n, tokens)


def _affordable(budget: int | float, **sizes: int) -> float:
    """How many parameters can be trained for so many operations a token."""
    flops_per_parameter = 6.0
    for _ in range(4):  # what attention adds depends on the shape that is left
        config = shape_for(budget / flops_per_parameter, **sizes)
        n_parameters = sum(count_parameters(config).values())
        flops_per_parameter = flops_per_token(config) / n_parameters
    return budget / flops_per_parameter


def _memory(
    config: GPTConfig, batch_size: int, n_devices: int, **way: object
) -> dict[str, int | float]:
    memory = training_bytes(config, batch_size, **way)
    shared = ("weights", "gradients", "optimizer")
    return {n: x / n_devices if n in shared else x for n, x in memory.items()}


def _fill(
    config: GPTConfig, device: Device, n_devices: int
) -> tuple[int, dict[str, int | float]]:
    """The largest power of two of sequences that the memory holds, a tenth of it left free."""
    tried = [(2**n, _memory(config, 2**n, n_devices)) for n in range(12)]
    fitting = [each for each in tried if sum(each[1].values()) <= 0.9 * device.memory]
    if not fitting:
        raise ValueError(
            f"{sum(tried[0][1].values()) / 1e9:.0f} GB for a single sequence do not fit "
            f"{n_devices} x {device.name} with {device.memory / 1e9:.0f} GB each; take more or "
            "larger devices, fewer parameters or a shorter context"
        )
    return fitting[-1]
