"""Published weights in, and ours out, in the layouts of GPT-2, Llama and Qwen3. Chapter 8."""

from decoder_only.hub.folder import PUBLISHED, export, load, load_model, read_config
from decoder_only.hub.settings import gpt2_config, llama_config
from decoder_only.hub.weights import from_gpt2, from_llama, to_gpt2, to_llama

__all__ = [
    "PUBLISHED",
    "export",
    "from_gpt2",
    "from_llama",
    "gpt2_config",
    "llama_config",
    "load",
    "load_model",
    "read_config",
    "to_gpt2",
    "to_llama",
]
