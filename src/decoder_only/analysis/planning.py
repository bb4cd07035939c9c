"""What to train with what there is: a model's shape and its tokens, from a budget and a device.

    (6 N + 12 L D S) M = operations = devices x peak x utilization x seconds of computing

A scaling law splits the budget between parameters and tokens; `counting` counts what the split
costs, and how many sequences the memory holds. Several devices talk besides, for as long as
chapter 13 computes. Nothing is built and nothing trained. Chapter 10.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from decoder_only.analysis.laws import JointLaw, KaplanLaw
from decoder_only.base import checks
from decoder_only.base.hardware import Device
from decoder_only.model import counting
from decoder_only.model.config import GPTConfig
from decoder_only.model.presets import MODERN

_MACHINE = 8  # devices that one machine holds, as most are built
_NETWORK = 50e9  # bytes per second of each device to other machines: 400 Gbit/s


def shape_for(
    n_parameters: int | float,
    *,
    vocab_size: int = 50_304,
    context_length: int = 2048,
    divisor: int = 1,
) -> GPTConfig:
    """A model of about so many parameters: heads of 64, D / L near 64, today's parts.

    Args:
        n_parameters: N.
        vocab_size, context_length: V and S.
        divisor: divides the number of heads.

    Loss depends weakly on the shape within a factor of two or so (Kaplan et al., 2020, section
    3.1), so it is chosen for round numbers.

    Raises:
        ValueError: for fewer parameters than the smallest such model has, or for 1e15 or more.
    """
    checks.number("parameters", n_parameters, below=1e15)

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
        miss = sum(counting.count_parameters(shape).values()) / n_parameters
        stretch = shape.d_model / shape.n_layers / 64
        return abs(math.log(stretch)) + 4 * abs(math.log(miss))

    shapes, step = [], 64 * divisor
    for d_model in range(step, 64 * 1024, step):
        n_layers = round((n_parameters - vocab_size * d_model) / (12 * d_model**2))
        if n_layers < 1:
            break
        if n_layers < 2**16:  # which `GPTConfig` asks for
            shapes.append(config(d_model, n_layers))
    if not shapes:
        smallest = sum(counting.count_parameters(config(step, 1)).values())
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
        device, n_devices: where.
        tensor_parallel: among how many devices matrices and positions are divided. Such groups
            divide the batch, and weights, gradients and optimizer's state.
        utilization: the fraction of the peak that is reached while devices compute.
        network: bytes per second that each device's own card sends to another machine.
        batch_size: sequences at a time in each group, as many as fit its memory.
        memory: bytes on each device, by what takes them.
        law: the law that predicts the loss.
    """

    config: GPTConfig
    tokens: int | float
    device: Device
    n_devices: int
    tensor_parallel: int
    utilization: int | float
    network: int | float
    batch_size: int
    memory: Mapping[str, int | float]
    law: JointLaw | KaplanLaw

    @property
    def n_parameters(self) -> int:
        """N, all of them."""
        return sum(counting.count_parameters(self.config).values())

    @property
    def flops(self) -> int | float:
        """C, the operations of training, see `counting.flops_per_token`."""
        return self.tokens * counting.flops_per_token(self.config)

    @property
    def data_parallel(self) -> int:
        """Among how many groups the batch is divided."""
        return self.n_devices // self.tensor_parallel

    @property
    def sent(self) -> dict[str, float]:
        """Bytes that each device sends for one micro-batch.

        Those of the "matrices" are counted by `counting.tensor_parallel_bytes`, in 16 bits.
        For the "state", weights are gathered forward and backward in 16 bits, and gradients added
        up in float32: 8 (P - 1) / P bytes for each parameter that a group's device holds.
        """
        sizes = self.batch_size, self.config.context_length, self.tensor_parallel
        collectives = counting.tensor_parallel_bytes(self.config, *sizes, sequence=True)
        n_parameters = self.n_parameters / self.tensor_parallel
        matrices = sum(collectives.values()) / 2
        state = 8 * (self.data_parallel - 1) / self.data_parallel * n_parameters
        return {"matrices": matrices, "state": state}

    @property
    def speeds(self) -> dict[str, float]:
        """Bytes per second that each device sends of the "state" and of the "matrices".

        Devices stand in machines of eight, each with a network card of its own. Within a machine
        a group sends by the devices' links. Across machines it sends by the cards of all the
        devices that it has in each: as many rings side by side, or a sum in every machine first.

        Source: Austin et al. (2025), part 12, on collectives across nodes.
        """
        n, one_machine = self.tensor_parallel, self.n_devices <= _MACHINE
        # Where a group is inside one machine, no card is in the way.
        state = math.inf if one_machine else max(1, _MACHINE // n)
        inside = one_machine or _MACHINE % n == 0
        cards = {"state": state, "matrices": math.inf if inside else min(_MACHINE, n)}
        link, network = self.device.link, self.network
        return {name: min(link, n * network) for name, n in cards.items()}

    @property
    def paces(self) -> dict[str, float]:
        """Seconds that one micro-batch takes: "computing", and sending each of `sent`."""
        tokens = self.batch_size * self.config.context_length
        speed = self.tensor_parallel * self.device.flops * self.utilization
        sending = {name: x / self.speeds[name] for name, x in self.sent.items()}
        return {
            "computing": tokens * counting.flops_per_token(self.config) / speed,
            **sending,
        }

    @property
    def computing(self) -> float:
        """The fraction of the time in which devices compute.

        The collectives of divided matrices stand between products that depend on each other, so
        that no computation overlaps them. Those of a divided state overlap, and cost only what
        they take beyond computing. Latency is not counted. Equations of chapter 13.
        """
        paces = self.paces
        longest = max(paces["computing"], paces["state"])
        return paces["computing"] / (paces["matrices"] + longest)

    @property
    def seconds(self) -> float:
        """How long training takes, computing and waiting."""
        at_best = self.n_devices * self.device.flops * self.utilization
        return self.flops / at_best / self.computing

    @property
    def loss(self) -> float:
        """The loss that the law predicts, in nats per token of the text that it was fitted to."""
        return self.law.loss(self.n_parameters, self.tokens)

    def memory_if(self, **way: object) -> int | float:
        """Bytes on each device with other arguments of `counting.training_bytes`."""
        layout = self.n_devices, self.tensor_parallel
        return sum(_memory(self.config, self.batch_size, *layout, **way).values())

    @property
    def training(self) -> dict[str, object]:
        """The fields of `TrainConfig` that train it.

        A step has about half a million tokens, as of the smaller GPT-3, but no plan has fewer than
        a thousand steps for that. The learning rate follows the rule of thumb in Kaplan et al.
        (2020), appendix D.6, from which it is time to depart once there are runs to look at.
        """
        rows = self.batch_size * self.data_parallel
        n_tokens = rows * self.config.context_length
        accumulation = max(1, int(min(2**19, self.tokens / 1000) // n_tokens))
        steps = max(1, round(self.tokens / (n_tokens * accumulation)))
        rate = max(1e-4, 0.003239 - 0.0001395 * math.log(self.n_parameters))
        return {
            "steps": steps,
            "batch_size": rows * accumulation,
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
    tensor_parallel: int = 1,
    network: int | float = _NETWORK,
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
    6 N a token: with the tokens fixed the budget is met within some per cent, else exactly. Of a
    budget in hours only what devices compute in buys operations.

    Kaplan's N leaves the embeddings out. Here it is taken for all parameters, which differ by
    less than a tenth from a billion on.

    Raises:
        ValueError: for a number that is not above 0, for two budgets, or for too much or too
            little of what decides; if `tensor_parallel` does not divide what it must, or if not
            even one sequence fits the device.

    Example: 32 devices in eight groups of four, `n_devices=32, tensor_parallel=4`.
    """
    budget = {
        "hours": hours,
        "flops": flops,
        "parameters": parameters,
        "tokens": tokens,
    }
    layout = {"n_devices": n_devices, "tensor_parallel": tensor_parallel}
    sizes = {"vocab_size": vocab_size, "context_length": context_length}
    for name, value in {**budget, **layout, "network": network}.items():
        checks.number(name, value, above=0, optional=True)
    _check_devices(n_devices, tensor_parallel, sizes)
    _check_one_budget({name for name, value in budget.items() if value is not None})
    checks.number("utilization", utilization, above=0, at_most=1)
    where = {"device": device, "utilization": utilization, "network": network}
    fixed = {"law": law, **layout, **where}
    plan_for = partial(_plan, parameters, tokens, sizes, fixed)
    if hours is None:
        return plan_for(flops)
    seconds = 3600 * hours
    plan = _plan_within(plan_for, seconds * n_devices * device.flops * utilization)
    more = seconds / plan.seconds if tokens is None else 1
    return replace(plan, tokens=plan.tokens * more)


def _check_devices(n_devices: int, n: int, sizes: Mapping[str, int]) -> None:
    for name, value in {"n_devices": n_devices, **sizes}.items():
        if value % n:
            raise ValueError(f"{name}={value} must be a multiple of the {n} devices")
    if n_devices > _MACHINE and n_devices % _MACHINE:
        machines = f"at most {_MACHINE}, or a multiple of that: machines are whole"
        raise ValueError(f"{n_devices=} must be {machines}")


def _check_one_budget(given: set[str]) -> None:
    if not given:
        raise ValueError("give hours, flops, parameters or tokens; one is enough")
    if len(given & {"hours", "flops"}) + ({"parameters", "tokens"} <= given) > 1:
        raise ValueError(
            "hours, flops, and parameters with tokens each fix the budget; give one of the three"
        )


def _plan_within(plan_for: Callable[[float], Plan], flops: float) -> Plan:
    """The plan for so many operations, less what is lost while devices wait for each other."""
    computing = 1.0
    for _ in range(9):  # how long they wait depends on the shape, which depends on that
        plan = plan_for(flops * computing)
        if plan.computing == computing:
            break
        computing = plan.computing
    return plan


def _plan(
    parameters: int | float | None,
    tokens: int | float | None,
    sizes: Mapping[str, int],
    fixed: Mapping[str, Any],
    flops: int | float | None,
) -> Plan:
    """The plan for so many operations, or for given parameters, tokens or both."""
    law, device = fixed["law"], fixed["device"]
    layout = fixed["n_devices"], fixed["tensor_parallel"]
    if parameters is None and tokens is None:
        parameters, _ = law.best_split(flops)
    elif flops is None and tokens is None:
        tokens = _on_best_split(law, lambda n, m: n < parameters)[1]
    elif flops is None and parameters is None:
        parameters = _on_best_split(law, lambda n, m: m < tokens)[0]
    elif parameters is None:
        parameters = _affordable(flops / tokens, **sizes)
    config = shape_for(parameters, **sizes, divisor=fixed["tensor_parallel"])
    if tokens is None:
        tokens = flops / counting.flops_per_token(config)
    batch_size, memory = _fill(config, device, *layout)
    return Plan(
        config=config, tokens=tokens, batch_size=batch_size, memory=memory, **fixed
    )


def _on_best_split(
    law: JointLaw | KaplanLaw, is_too_small: Callable[[float, float], bool]
) -> tuple[float, float]:
    """Parameters and tokens of the smallest budget, split by the law, that is not too small."""
    low, high = 0.0, 40.0
    for _ in range(60):  # both grow with the budget; its logarithm's interval is halved
        middle = (low + high) / 2
        too_small = is_too_small(*law.best_split(10**middle))
        low, high = (middle, high) if too_small else (low, middle)
    return law.best_split(10**high)


def _affordable(budget: int | float, **sizes: int) -> float:
    """How many parameters can be trained for so many operations a token."""
    flops_per_parameter = 6.0
    for _ in range(4):  # what attention adds depends on the shape
        config = shape_for(budget / flops_per_parameter, **sizes)
        n_parameters = sum(counting.count_parameters(config).values())
        flops_per_parameter = counting.flops_per_token(config) / n_parameters
    return budget / flops_per_parameter


def _memory(
    config: GPTConfig,
    batch_size: int,
    n_devices: int,
    tensor_parallel: int,
    **way: object,
) -> dict[str, int | float]:
    """Bytes on each device.

    All devices divide the state, those of a group the activations and the loss. Where weights are
    gathered block by block, 16-bit copies of two exist: of one that computes, and of the next.
    """
    memory = counting.training_bytes(config, batch_size, **way)
    if n_devices > tensor_parallel and not way.get("recompute"):
        counted = counting.count_parameters(config)
        block = (counted["attention"] + counted["mlp"]) // config.n_layers
        memory["activations"] -= 2 * block * max(0, config.n_layers - 2)
    for name in ("weights", "gradients", "optimizer"):
        memory[name] /= n_devices
    for name in ("activations", "loss"):
        memory[name] /= tensor_parallel
    return memory


def _fill(
    config: GPTConfig, device: Device, n_devices: int, tensor_parallel: int
) -> tuple[int, dict[str, int | float]]:
    """As many sequences as the memory holds, a tenth of it left free."""
    room, way = 0.9 * device.memory, (n_devices, tensor_parallel)
    one, two = (sum(_memory(config, n, *way).values()) for n in (1, 2))
    if one > room:
        raise ValueError(
            f"{one / 1e9:.0f} GB for a single sequence do not fit "
            f"{n_devices} x {device.name} with {device.memory / 1e9:.0f} GB each; take more or "
            "larger devices, fewer parameters or a shorter context"
        )
    n = 1 + int((room - one) / (two - one))  # each sequence adds as much
    return n, _memory(config, n, *way)
