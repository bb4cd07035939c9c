"""An hour on one GPU: what is there, what it can train in that time, and how far it is.

    place = find()
    recipe = plan(place)
    timings = compare(place, recipe)
    recipe = settle(place, folder, timings)
    material = gather(recipe, folder)
    history = train(place, recipe, material, folder)

Without a GPU the same calls rehearse the hour with a small model. Used by the page "An hour on a
free GPU".
"""

import atexit
import contextlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from decoder_only import recipes
from decoder_only.analysis.laws import PUBLISHED
from decoder_only.analysis.planning import Plan
from decoder_only.base import hardware
from decoder_only.data.corpus import Corpus
from decoder_only.model.config import GPTConfig
from decoder_only.model.counting import flops_per_token, training_bytes
from decoder_only.model.gpt import GPT
from decoder_only.recipes import Material, Recipe
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, checkpoint, loop
from decoder_only.training.monitor import History
from decoder_only.training.processes import ALONE
from decoder_only.training.state import initial_state
from decoder_only_book.screen import Screen, pace_of

# Set in the environment, it lets a machine with a GPU rehearse, too; the tests set it.
REHEARSE = "DECODER_ONLY_REHEARSE"

MINUTES = 35  # of the hour, for training; stories and comparing take some of the rest
UTILIZATION = 0.25  # of the peak, as a plan has it: a guess until steps have been timed
FEWEST, MOST = 300, 20_000  # steps
PASSES, TOKENS_OF_A_STORY = 4, 150
ROOM = 0.8  # the share of a GPU's memory that the count of a step may fill

_COMPILES = (7, 0)  # the least compute capability for which Triton compiles
_WITHOUT_BFLOAT16 = ("T4", "V100")  # of the GPUs whose data sheets are known

_SMALL = {"context_length": 224, "d_model": 64, "n_layers": 2, "n_heads": 2}
_SHORT = {"steps": 80, "batch_size": 4, "evaluate_every": 40, "compile": False}
# What is trained without a GPU: a few seconds of the smallest language.
REHEARSAL = recipes.chosen("stories-cpu", model=_SMALL, training=_SHORT)
REHEARSAL.data.update(n_train=1000, n_validation=30, vocab_size=1024)


# ------------------------------------------------------------------------------ what is there


@dataclass(frozen=True)
class Place:
    """Where the hour is spent.

    Attributes:
        name: the device in words.
        device: on which everything runs.
        memory: bytes of the GPU; None for a rehearsal.
        number_format: of its matrix products.
        compiles: whether `torch.compile` is used.
        sheet: the GPU's limits, where its data sheet is known.
    """

    name: str
    device: torch.device
    memory: float | None = None
    number_format: torch.dtype = torch.float32
    compiles: bool = False
    sheet: hardware.Device | None = None

    @property
    def is_rehearsal(self) -> bool:
        """Whether there is no GPU to spend the hour on."""
        return self.device.type != "cuda"


def find() -> Place:
    """The GPU of this machine, or a place to rehearse on its CPU."""
    if os.environ.get(REHEARSE) or not torch.cuda.is_available():
        return Place("CPU", torch.device("cpu"))
    device = hardware.choose_device("cuda")
    properties = torch.cuda.get_device_properties(device)
    return Place(
        name=hardware.describe(device),
        device=device,
        memory=properties.total_memory,
        number_format=hardware.multiplying_format(device),
        compiles=(properties.major, properties.minor) >= _COMPILES,
        sheet=hardware.known_device(properties.name),
    )


def on_paper(name: str) -> Place:
    """A GPU that need not be there, by its data sheet.

    Raises:
        ValueError: its data sheet is not known.
    """
    sheet = hardware.known_device(name)
    if sheet is None:
        raise ValueError(f"{name=} must be one of {', '.join(hardware.DEVICES)}")
    is_old = sheet.name in _WITHOUT_BFLOAT16
    return Place(
        name=sheet.name,
        device=torch.device("cuda"),
        memory=sheet.memory,
        number_format=torch.float16 if is_old else torch.bfloat16,
        compiles=True,
        sheet=sheet,
    )


def keep(name: str, place: Place, *, drive: bool = False) -> Path:
    """The folder that a run is kept in; a rehearsal's is a new one, which nobody needs later.

    Args:
        name: of the folder, in the working folder or in Google Drive.
        place: where the hour is spent.
        drive: keep it in Google Drive, which outlives a session on Colab.

    Raises:
        RuntimeError: there is no Google Drive, since this is not Colab.
    """
    if place.is_rehearsal:
        folder = tempfile.mkdtemp(prefix="rehearsal-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return Path(folder) / name
    if not drive:
        return Path(name)
    try:
        from google.colab import drive as google
    except ImportError:
        raise RuntimeError(
            "Google Drive is there on Colab only; elsewhere say drive=False, and name a folder "
            "on a disk that outlives the session"
        ) from None
    mounted = Path.cwd() / "drive"
    google.mount(str(mounted))
    return mounted / "MyDrive" / name


# ------------------------------------------------------------------------------ what to train


def plan(place: Place) -> Recipe:
    """What the place trains in its hour: steps and stories from the data sheet.

    Raises:
        ValueError: not even one row of a batch fits the GPU's memory.
    """
    if place.is_rehearsal:
        return REHEARSAL
    peak = 0.0 if place.sheet is None else place.sheet.flops  # until steps are timed
    per_token = flops_per_token(config_of(recipes.RECIPES["stories-gpu"]))
    return sized(place, peak * UTILIZATION / per_token)


def sized(place: Place, tokens_per_second: float) -> Recipe:
    """The recipe for a GPU, with as many steps as fit the time at a pace."""
    base = recipes.RECIPES["stories-gpu"]
    per_step = base.training["batch_size"] * base.model["context_length"]
    steps = round(60 * MINUTES * tokens_per_second / per_step, -2)
    steps = int(min(max(steps, FEWEST), MOST))
    n_stories = steps * per_step // (PASSES * TOKENS_OF_A_STORY) // 1000 * 1000
    return recipes.chosen(
        "stories-gpu",
        n_stories=min(n_stories, base.data["n_train"]),
        training={"steps": steps, "evaluate_every": steps // 10}
        | {"save_every": steps // 20, "compile": place.compiles}
        | {"accumulation": _accumulation(place, base)},
    )


def _accumulation(place: Place, recipe: Recipe) -> int:
    """In how many parts a batch is computed, so that each fits the memory in each way."""
    if place.memory is None:
        return 1
    n_rows = recipe.training["batch_size"]
    for parts in (n for n in range(1, n_rows + 1) if n_rows % n == 0):
        needed = max(
            bytes_counted(
                replace(place, number_format=number_format),
                changed(recipe, accumulation=parts, compile=is_compiled),
            )
            for _, number_format, is_compiled in ways(place)
        )
        if needed <= ROOM * place.memory:
            return parts
    raise ValueError(
        f"{place.name} has {place.memory / 1e9:.1f} GB, and one row needs {needed / 1e9:.1f} GB; "
        "take a GPU with more memory, or none: the page then rehearses"
    )


def changed(recipe: Recipe, **training: object) -> Recipe:
    """The recipe, trained in another way."""
    return replace(recipe, training=recipe.training | training)


def config_of(recipe: Recipe) -> GPTConfig:
    """The settings of a recipe's model, before its vocabulary is learned."""
    return GPTConfig(**{"vocab_size": recipe.data["vocab_size"]} | recipe.model)


def bytes_counted(place: Place, recipe: Recipe) -> int:
    """The memory that a step of a recipe takes at most, as `counting` counts it."""
    training = TrainConfig(**recipe.training)
    counted = training_bytes(
        config_of(recipe),
        training.batch_size // training.accumulation,
        number_format=str(place.number_format).removeprefix("torch."),
        optimizer=training.optimizer,
        compiled=bool(training.compile),
        loss_slices=training.loss_slices,
    )
    return sum(counted.values())


def minutes_planned(place: Place, recipe: Recipe) -> float | None:
    """How long the training takes by the data sheet; None where none is known."""
    if place.sheet is None:
        return None
    config, training = config_of(recipe), recipe.training
    per_step = training["batch_size"] * config.context_length
    paper = Plan(
        config=config,
        tokens=training["steps"] * per_step,
        device=place.sheet,
        n_devices=1,
        tensor_parallel=1,
        utilization=UTILIZATION,
        network=1.0,  # a single GPU sends nothing
        batch_size=training["batch_size"],
        memory={},
        law=PUBLISHED["besiroglu2024"],
    )
    return paper.seconds / 60


# ------------------------------------------------------------------------------ a few steps, timed


@dataclass(frozen=True)
class Timing:
    """A way to take a step, and what it cost.

    Attributes:
        way: in words.
        start: seconds of the first step, in which compiling happens.
        tokens_per_second: of the steps after it; None if they did not fit the memory.
        loss: after these steps, in nats per token.
        memory: the most bytes that were in use; None without a GPU.
    """

    way: str
    start: float = 0.0
    tokens_per_second: float | None = None
    loss: float | None = None
    memory: int | None = None


def ways(place: Place) -> list[tuple[str, torch.dtype, bool]]:
    """The ways to compare: a name, a number format, and whether it is compiled."""
    half = torch.bfloat16 if place.is_rehearsal else place.number_format
    name = str(half).removeprefix("torch.")
    found = [("float32, plain", torch.float32, False), (f"{name}, plain", half, False)]
    return found + [(f"{name}, compiled", half, True)] * place.compiles


def compare(place: Place, recipe: Recipe, n_steps: int | None = None) -> list[Timing]:
    """Time a few steps in each way, on tokens drawn at random, from the same weights."""
    n_steps = n_steps or (2 if place.is_rehearsal else 10)
    with warnings.catch_warnings():
        if place.is_rehearsal:  # a CPU has no fused kernels for bfloat16, and says so
            warnings.simplefilter("ignore")
        return [_timed(place, recipe, *way, n_steps) for way in ways(place)]


def _timed(
    place: Place,
    recipe: Recipe,
    name: str,
    number_format: torch.dtype,
    is_compiled: bool,
    n_steps: int,
) -> Timing:
    torch.compiler.reset()
    step, config = stepper(place, recipe, number_format, is_compiled)
    begin_memory(place.device)
    try:
        began = time.perf_counter()
        step().loss.item()  # waits for the device
        start, began = time.perf_counter() - began, time.perf_counter()
        for _ in range(n_steps):
            result = step()
        loss = result.loss.item()
        seconds = time.perf_counter() - began
    except torch.OutOfMemoryError:
        return Timing(f"{name}: not enough memory")
    n_tokens = n_steps * recipe.training["batch_size"] * config.context_length
    return Timing(name, start, n_tokens / seconds, loss, peak_bytes(place.device))


def stepper(
    place: Place, recipe: Recipe, number_format: torch.dtype, is_compiled: bool
) -> tuple[Callable, GPTConfig]:
    """A function that takes the next step as `train` takes it, and the model's settings."""
    config = config_of(recipe)
    ids = np.random.default_rng(0).integers(config.vocab_size, size=200_000)
    corpus = Corpus(ids=ids.astype(np.uint16), n_bytes=ids.size)
    model = GPT(config, generator=torch.Generator().manual_seed(0)).to(place.device)
    settings = TrainConfig(**recipe.training | {"compile": is_compiled})
    with products_in(number_format):
        state = initial_state(model, settings, ALONE, "ddp")

    def step():
        with products_in(number_format):
            return loop._step(state, corpus)

    return step, config


@contextlib.contextmanager
def products_in(number_format: torch.dtype) -> Iterator[None]:
    """A context in which matrix products run in this format, whatever the device likes best."""
    chosen = hardware.multiplying_format
    hardware.multiplying_format = lambda device: number_format
    try:
        yield
    finally:
        hardware.multiplying_format = chosen


def begin_memory(device: torch.device) -> None:
    """Forget the most memory that was in use so far."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int | None:
    """The most bytes that were in use at a time; None without a GPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


# ------------------------------------------------------------------------------ the training


def settle(place: Place, folder: Path, timings: Sequence[Timing]) -> Recipe:
    """The recipe that the hour really trains: a run's own, or one for the measured pace.

    Args:
        place, timings: where, and how fast a step is there in each way.
        folder: if it holds a run, that run goes on with what it was begun with.

    Raises:
        ValueError: the run in the folder learned no stories, or no way fits the memory.
    """
    if checkpoint.is_run(folder):
        recipe = recipes.stored(folder)
        if recipe.data["kind"] != "stories":
            raise ValueError(
                f"{folder} holds a run on a text, and this page goes on with stories; "
                "name another folder"
            )
        # It may have begun on another device.
        parts = _accumulation(place, recipe)
        return changed(recipe, accumulation=parts, compile=place.compiles)
    if place.is_rehearsal:
        return REHEARSAL
    paces = [each.tokens_per_second for each in timings if each.tokens_per_second]
    if not paces:
        raise ValueError("no way of taking a step fits the memory; restart the session")
    return sized(place, paces[-1])


def gather(place: Place, recipe: Recipe, folder: Path) -> Material:
    """Write the stories that the recipe learns from, with the tokenizer of the run if it has one.

    The stories of a resumed run are written anew, the same as before; `train` compares them.
    """
    path = folder / checkpoint.TOKENIZER
    tokenizer = BytePairTokenizer.load(path) if checkpoint.is_run(folder) else None
    return recipes.gather(recipe, tokenizer, progress=not place.is_rehearsal)


def train(
    place: Place,
    recipe: Recipe,
    material: Material,
    folder: Path,
    show: Callable[..., None] | None = None,
) -> History:
    """Train, or go on, and keep the state in the folder; the stop button saves, too.

    Args:
        place, recipe, material: see `find`, `settle` and `gather`.
        folder: of the run; made if it is not there.
        show: draws what the screen has to say; see `screen.on_page`. None draws nothing.

    Raises:
        OSError: the folder holds something else than a run, or is full.
        ValueError: the run in the folder was begun with other settings or data.
    """
    model = recipes.build(recipe, material).to(place.device)
    begin_memory(place.device)
    with contextlib.ExitStack() as stack:
        run = folder
        if not checkpoint.is_run(folder):
            where = {"out": folder, "device": place.name}
            new = recipes.begin(recipe, material, model.config, **where)
            run = stack.enter_context(new)
        if show is not None:
            what = model, material.tokenizer, recipes.language_of(recipe.data), show
            # A rehearsal's stories go wrong in their first words.
            how = {"every": 2.0, "longest": 60} if place.is_rehearsal else {}
            screen = Screen(folder, *what, **how)
            stack.enter_context(contextlib.redirect_stderr(screen))
        return loop.train(
            model,
            material.train,
            material.validation,
            TrainConfig(**recipe.training),
            run=run,
            progress=show is not None,
        )


# ------------------------------------------------------------------------------ what came of it


def report(place: Place, recipe: Recipe, folder: Path) -> str:
    """Tokens a second, share of the peak and memory of a training, each beside its plan."""
    config = config_of(recipe)
    pace = pace_of(folder, recipe.training["batch_size"] * config.context_length)
    lines = [f"{pace:,.0f} tokens a second"]
    if place.sheet is not None:
        share = pace * flops_per_token(config) / place.sheet.flops
        lines.append(f"{share:.1%} of the peak (the plan: {UTILIZATION:.0%})")
    used = peak_bytes(place.device)
    if used is not None:
        counted = bytes_counted(place, recipe)
        lines.append(f"{used / 1e9:.1f} GB at most (the plan: {counted / 1e9:.1f} GB)")
    return "\n".join(lines)


def pack(folder: Path) -> Path:
    """A zip file beside the run's folder with what the story machine opens.

    The weights are rounded to bfloat16: half as much to load, and the states stay out.
    """
    saved, out = checkpoint.load(folder), folder.with_name(f"{folder.name}-machine")
    out.mkdir(parents=True, exist_ok=True)
    for name in (checkpoint.CONFIG, checkpoint.TOKENIZER):
        shutil.copyfile(folder / name, out / name)
    checkpoint.save(out, saved.model.bfloat16(), step=saved.step)
    return Path(shutil.make_archive(str(out), "zip", out))
