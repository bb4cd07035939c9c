"""Models that the field knows by name, as settings of the one class.

GPT-2, GPT-3 and Llama 2 as their papers give them, and a small model with what has proved itself
since. Chapter 8 describes them, the largest without storing a weight:

    with torch.device("meta"):
        model = GPT(PRESETS["gpt3-175b"])
"""

from decoder_only.model.config import GPTConfig

MODERN: dict[str, object] = {
    "positions": "rotary",
    "norm": "rms",
    "activation": "squared_relu",
    "qk_norm": True,
    "bias": False,
    "initialization": "zero",
}
"""The parts that have come to stay, as settings: chapters 2 to 7 try each."""


def _gpt2(n_layers: int, d_model: int, n_heads: int) -> GPTConfig:
    return GPTConfig(
        vocab_size=50257,
        context_length=1024,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
    )


def _gpt3(n_layers: int, d_model: int, n_heads: int, head_dim: int) -> GPTConfig:
    return GPTConfig(
        vocab_size=50257,
        context_length=2048,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        # As the paper prints it: in two rows it is not d_model / n_heads.
        head_dim=head_dim,
        # "Alternating dense and locally banded sparse attention": how wide is not published. 256
        # is our choice, and changes no count of parameters.
        windows=(None, 256),
    )


PRESETS: dict[str, GPTConfig] = {
    # Radford et al. (2019), table 2; the heads are from the published checkpoints.
    "gpt2-small": _gpt2(12, 768, 12),
    "gpt2-medium": _gpt2(24, 1024, 16),
    "gpt2-large": _gpt2(36, 1280, 20),
    "gpt2-xl": _gpt2(48, 1600, 25),
    # Brown et al. (2020), table 2.1.
    "gpt3-small": _gpt3(12, 768, 12, 64),
    "gpt3-medium": _gpt3(24, 1024, 16, 64),
    "gpt3-large": _gpt3(24, 1536, 16, 96),
    "gpt3-xl": _gpt3(24, 2048, 24, 128),
    "gpt3-2.7b": _gpt3(32, 2560, 32, 80),
    "gpt3-6.7b": _gpt3(32, 4096, 32, 128),
    "gpt3-13b": _gpt3(40, 5140, 40, 128),
    "gpt3-175b": _gpt3(96, 12288, 96, 128),
    # Touvron et al. (2023), the smallest of Llama 2.
    "llama2-7b": GPTConfig(
        vocab_size=32000,
        context_length=4096,
        d_model=4096,
        n_layers=32,
        n_heads=32,
        d_mlp=11008,
        positions="rotary",
        norm="rms",
        activation="swiglu",
        bias=False,
        tied=False,
    ),
    # GPT-2 small's depth and width, with a head of its own whose logits are bound.
    "modern-small": GPTConfig(
        vocab_size=50304,  # GPT-2's 50257, rounded up to a multiple of 128
        context_length=1024,
        d_model=768,
        n_layers=12,
        n_heads=6,
        tied=False,
        soft_cap=15.0,
        **MODERN,
    ),
}

ALIASES = {"gpt2": "gpt2-small"}
"""Other names of some, as they are published."""
