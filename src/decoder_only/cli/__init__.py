"""The command `decoder-only`: plan a model, train it, watch it, and let it write.

    decoder-only plan --gpu H100 --hours 24   what to train with what there is
    decoder-only info gpt2-small              what a model or a run costs
    decoder-only train                        stories of a hamlet, a small model, minutes
    decoder-only train --text book.txt        any UTF-8 text
    decoder-only prepare novels --out tokens  any amount of text, once
    decoder-only train --text tokens
    decoder-only train --resume runs/book-1   go on with a training that was stopped
    decoder-only plot runs/book-1 runs/book-2
    decoder-only sample --run runs/stories-1 --prompt "Once there was a"
    decoder-only export --run runs/book-1 --out folder

Each command is a function in a file of its own, which is loaded when it is asked for: its
parameters are the options, and its docstring is their help. Chapter 9.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from decoder_only import __version__

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "prepare": "Turn text of any size into tokens, once, from which `train --text` then reads.",
    "train": "Train a model, and let it write.",
    "sample": "Let a trained model write.",
    "plot": "Draw the losses of runs in one figure, and the norms of their gradients.",
    "plan": "Say what to train with what there is, and what it costs; nothing is trained.",
    "info": "Count a model: its parameters, operations and bytes, and how a run went.",
    "export": "Write a run's model as a folder that Hugging Face's transformers opens.",
}

_MEMORY = (
    "; that is more memory than there is: take a smaller --batch-size, cut the batch into more "
    "parts by --accumulation, keep less by --recompute, write fewer texts by --count, or take a "
    "smaller model"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status.

    Args:
        arguments: the words behind `decoder-only`; those of the command line by default.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _run(*(words or ["--help"]))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError, FloatingPointError, ImportError) as error:
        print(f"decoder-only: {_in_one_line(error)}", file=sys.stderr)
    except (MemoryError, RuntimeError) as error:
        said = str(error).partition("\n")[0] or type(error).__name__
        # Only a GPU's own memory has an exception of its own, and that is a RuntimeError too.
        little = isinstance(error, MemoryError) or any(
            word in said.lower() for word in ("memory", "alloc", "overflow")
        )
        print(
            f"decoder-only: {_in_one_line(said)}{_MEMORY if little else ''}",
            file=sys.stderr,
        )
    except KeyboardInterrupt:
        print("\ndecoder-only: interrupted", file=sys.stderr)
        return 130
    return 1


def _in_one_line(said: object) -> str:
    """A message that no file, whatever it says, can use to write to the terminal at will."""
    text = str(said)
    text = text if len(text) < 1000 else f"{text[:900]} … {text[-80:]}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _run(name: str, *words: str) -> int:
    if name in ("-h", "--help"):
        print("usage: decoder-only COMMAND [OPTIONS]\n")
        for command, said in COMMANDS.items():
            print(f"  {command:10}{said}")
        examples = (__doc__ or "").split("\n\n")[1]
        print(f"\nFor instance:\n\n{examples}\n")
        print("`decoder-only COMMAND --help` explains its options.")
    elif name == "--version":
        print(f"decoder-only {__version__}")
    elif name not in COMMANDS:
        print(
            f"decoder-only: there is no command {name!r}; choose one of {', '.join(COMMANDS)}",
            file=sys.stderr,
        )
        return 2
    else:
        # Before the imports, which take seconds. Of several processes the first speaks, and
        # stdout is kept for what was asked for.
        if "--quiet" not in words and os.environ.get("RANK", "0") == "0":
            print(
                f"decoder-only {name}: loading PyTorch …", file=sys.stderr, flush=True
            )
        import tyro

        command = getattr(import_module(f"decoder_only.cli.{name}"), name)
        return tyro.cli(command, prog=f"decoder-only {name}", args=list(words)) or 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
