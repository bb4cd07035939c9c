"""A device that no machine has, on which everything can be walked through.

PyTorch lets a program name a backend of its own; here that is "gpu", whose tensors are fake: they
have a shape and a device and no numbers. An operation that mixes devices is refused as a GPU
refuses it, and whoever reads a number, for which a GPU had to finish first, gets an exception.

    python tests/accelerator.py

walks each of `WALKS` and prints what went wrong, as JSON. There is no backward pass, which would
call the device from threads that know no Python. It is a program of its own because a process that
has such a backend takes it for the machine's accelerator.
"""

import contextlib
import json
import traceback
from functools import partial
from unittest import mock

import numpy as np
import pool
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils import backend_registration as registration

from decoder_only import GPT, GPTConfig
from decoder_only.analysis.interpretation import (
    ExcessByKind,
    Probe,
    additions,
    attention_maps,
    fit_probe,
    lens,
    streams,
)
from decoder_only.analysis.knowledge import Biographies, FactWorld
from decoder_only.base import hardware
from decoder_only.data.corpus import Corpus
from decoder_only.generation import generate
from decoder_only.model.presets import MODERN
from decoder_only.stories.exact import Fork, Settled
from decoder_only.training import NextTokenLoss, TrainConfig, loop, train_step
from decoder_only.training.optimizers import build_optimizers
from decoder_only.training.processes import ALONE, local_copies
from decoder_only.training.state import initial_state
from decoder_only.variants.encoders import Decoder, Encoder, EncoderDecoder, MaskedModel
from decoder_only.variants.finetuning import (
    AnswerTree,
    Classifier,
    add_lora,
    dpo_loss,
    grpo_loss,
)
from decoder_only_book import hour

GPU = "gpu:0"
SIZES = {"context_length": 32, "d_model": 16, "n_layers": 2, "n_heads": 4}
LLAMA = {"positions": "rotary", "n_kv_heads": 2, "windows": (None, 8), "norm": "rms"}


class Imagined(FakeTensorMode):
    """Within, every tensor is fake."""

    avoid_device_init = True  # there is none to put a constant on


def model(kind: type[nn.Module] = GPT, vocab_size: int = 50, **settings: object):
    with torch.device(GPU):
        return kind(GPTConfig(vocab_size=vocab_size, **SIZES, **settings))


def ids(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.long, device=GPU)


def is_there(*tensors: Tensor) -> bool:
    return all(x.device == torch.device(GPU) for x in tensors)


# ------------------------------------------------------------------------------------- the walks


def the_loss():
    for settings in ({}, LLAMA, {"tied": False, "soft_cap": 3.0}):
        for n_slices in (1, 3):  # gradients in the forward pass, where there are slices
            gpt = model(**settings)
            assert is_there(NextTokenLoss(gpt, n_slices)(ids(2, 20), ids(2, 20)))


def a_step_of_training():
    gpt = model(**LLAMA)

    def backward(loss):
        for p in gpt.parameters():
            p.grad = torch.empty_like(p)

    with mock.patch.object(Tensor, "backward", backward):
        for name in ("adamw", "muon"):
            moving = build_optimizers(gpt, optimizer=name, learning_rate=1e-3)
            batch, how = (ids(4, 20), ids(4, 20)), {"accumulation": 2}
            made = train_step(
                NextTokenLoss(gpt), moving, *batch, **how, max_gradient_norm=1
            )
            assert is_there(made.loss, made.gradient_norm, made.skipped)


def a_step_of_the_hour():
    """From the corpus to the weights, with the loss scale that float16 needs."""
    corpus = Corpus(ids=np.zeros(500, np.uint16), n_bytes=500)
    how = {"optimizer": "muon", "accumulation": 2, "batch_size": 4, "compile": False}
    backward = mock.patch.object(Tensor, "backward", return_value=None)
    plain = mock.patch.object(
        hardware, "autocast", return_value=contextlib.nullcontext()
    )
    with hour.products_in(torch.float16), plain, backward:
        state = initial_state(model(**MODERN), TrainConfig(**how), ALONE, "ddp")
        for p in state.model.parameters():
            p.grad = torch.empty_like(p)
        keep = mock.patch.object(torch.optim.Optimizer, "zero_grad")
        with keep:
            made = loop._step(state, corpus)
    assert is_there(made.loss, made.gradient_norm, made.skipped, state.scale.value)


def generation():
    most = {"max_new_tokens": 3}
    for settings in ({}, LLAMA):
        for how in ({"temperature": 0}, {"top_k": 3, "top_p": 0.9}):
            gpt = model(**settings)
            made = generate(gpt, ids(2, 20), stop_id=1, n_allowed=40, **most, **how)
            assert is_there(made)
            # How far each row was padded is read in the end.
            reads_a_number(partial(generate, gpt, [ids(3), ids(5)], **most, **how))


def a_full_cache_is_refused_by_the_host():
    gpt = model(positions="rotary").eval()
    cache = gpt.new_cache(max_length=8)
    for _ in range(8):
        gpt(ids(1, 1), cache)
    with pytest.raises(ValueError, match="at most the cache's max_length=8"):
        gpt(ids(1, 1), cache)


def a_mask_meets_groups():
    kernel, seen = F.scaled_dot_product_attention, []

    def note(query, key, value, **settings):
        assert not (settings["enable_gqa"] and settings["attn_mask"] is not None)
        seen.append(settings["attn_mask"] is None)
        return kernel(query, key, value, **settings)

    with mock.patch.object(F, "scaled_dot_product_attention", note):
        model(**LLAMA)(ids(2, 20))
        generate(model(**LLAMA), ids(2, 20), max_new_tokens=3)
    assert {*seen} == {True, False}


def initial_weights():
    draw = Tensor.normal_

    def note(x, *arguments, generator=None, **settings):
        assert generator is None or generator.device == x.device
        return draw(x, *arguments, generator=generator, **settings)

    with mock.patch.object(Tensor, "normal_", note):
        for kind in (GPT, Encoder, Decoder, MaskedModel, EncoderDecoder):
            config = GPTConfig(vocab_size=50, **SIZES)
            with torch.device(GPU):
                made = kind(config, generator=torch.Generator())
            assert is_there(*made.parameters())
        assert is_there(*add_lora(model(), rank=2, generator=torch.Generator()))


def encoders():
    source, target = ids(2, 9), ids(2, 7)
    assert is_there(model(Encoder)(source), model(MaskedModel)(source))
    both = model(EncoderDecoder, positions="sinusoidal")
    assert is_there(both(source, target))


def classifiers():
    classify = Classifier(model(), 3)
    lengths = torch.tensor([5, 9]).to(GPU)
    assert is_there(classify(ids(2, 9), lengths))
    # One graph, though nothing is known of the lengths.
    with pool.short_traces():
        torch.compile(classify, backend="eager", fullgraph=True)(ids(2, 9), lengths)


def answers():
    gpt, tree = model(), AnswerTree([[1, 2], [1, 3], [4]])
    log_q = tree.log_probs(gpt, [[5, 6], [7]])
    assert is_there(log_q)
    assert is_there(dpo_loss(*log_q.T[:2], *log_q.T[:2].detach(), beta=1.0))
    assert is_there(grpo_loss(log_q, log_q.detach(), log_q.detach(), beta=1.0))


def facts():
    gpt = model(vocab_size=WORLD.vocab_size, positions="rotary")
    assert WORLD.ask(gpt).device.type == "cpu"
    WORLD.outcomes(WORLD.says(gpt))
    reads_a_number(BIOGRAPHIES.bits_known, gpt)


def what_is_inside():
    gpt, x = model(**LLAMA), ids(2, 9)
    for one in (streams(gpt, x), attention_maps(gpt, x), additions(gpt, x)):
        assert is_there(one)
    assert is_there(lens(gpt, streams(gpt, x)))
    log_q = gpt(x)[0, :2].log_softmax(-1)
    EXCESS(log_q)
    vectors, labels = streams(gpt, x)[0].flatten(0, 1), torch.zeros(18).long()
    probe = Probe(torch.zeros(16, 2, device=GPU), torch.zeros(2, device=GPU))
    for where in ("cpu", GPU):
        reads_a_number(fit_probe, vectors, labels.to(where))
        reads_a_number(probe.accuracy, vectors, labels.to(where))


def a_state_is_copied_in_one_go():
    with mock.patch.object(torch.accelerator, "synchronize") as wait:
        copies = local_copies(model().state_dict(), ALONE)
    assert {x.device.type for x in copies.values()} == {"cpu"}
    wait.assert_called_once_with(torch.device(GPU))


def reads_a_number(function, *arguments) -> None:
    """Which is what it returns, at its end."""
    with pytest.raises(DataDependentOutputException):
        function(*arguments)


WALKS = (
    the_loss,
    a_step_of_training,
    a_step_of_the_hour,
    generation,
    a_full_cache_is_refused_by_the_host,
    a_mask_meets_groups,
    initial_weights,
    encoders,
    classifiers,
    answers,
    facts,
    what_is_inside,
    a_state_is_copied_in_one_go,
)


if __name__ == "__main__":
    # PyTorch keeps no reference to these.
    parts = {
        "backend_module": registration._DummyBackendModule(),
        "hook": registration._DummyPrivateUse1Hook(),
        "device_guard": registration._DummyDeviceGuard(),
    }
    registration._setup_privateuseone_for_python_backend("gpu", **parts)
    WORLD, BIOGRAPHIES = FactWorld(5, 2, 3), Biographies(5, 2, 3)
    TREE = Fork(
        "name", ((0.5, Settled("agreement", 1)), (0.5, Settled("agreement", 2)))
    )
    EXCESS = ExcessByKind([TREE, TREE])
    went_wrong = {}
    for walk in WALKS:
        try:
            with Imagined(allow_non_fake_inputs=True):
                walk()
        except Exception:
            went_wrong[walk.__name__] = traceback.format_exc()
    print(json.dumps(went_wrong), flush=True)
