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
    decoder-only workbook 03                  a chapter's exercises, which check themselves
    decoder-only progress                     what has passed

Each command is a function in a file of its own, which is loaded when it is asked for: its
parameters are the options, and its docstring is their help. Other packages add commands through
the entry points of the group `decoder_only.commands`. Chapter 9.
"""

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import entry_points

from decoder_only.cli.words import plain

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
    "; that is more memory than there is: take a smaller --batch-size, cut it by --accumulation, "
    "keep less by --recompute, write fewer texts by --count, or take a smaller model"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status.

    Args:
        arguments: the words after `decoder-only`; those of the command line by default.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    with _interruptible(is_last=arguments is None) as came:
        try:
            status = _run(*(words or ["--help"]))
            sys.stdout.flush()
            return status
        except BrokenPipeError:  # the reader, such as `head`, has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        except BaseException as error:
            # Where it strikes within an import, an interruption may come as any error.
            if came or isinstance(error, KeyboardInterrupt):
                print("\ndecoder-only: interrupted", file=sys.stderr)
                return 128 + (came or [signal.SIGINT])[0]
            if not isinstance(error, _EXPECTED):
                raise
            print(f"decoder-only: {_explained(error)}", file=sys.stderr)
            return 1


# What a user can act on is told in one line; anything else is a bug, and shows its traceback.
_EXPECTED = (ValueError, OSError, FloatingPointError, ImportError, MemoryError)
_EXPECTED += (RuntimeError,)


def _explained(error: BaseException) -> str:
    if not isinstance(error, MemoryError | RuntimeError):
        return plain(error)
    message = str(error).partition("\n")[0] or type(error).__name__
    # Only a GPU's own memory has an exception of its own, and that is a RuntimeError too.
    signs = ("memory", "alloc", "overflow")
    little = isinstance(error, MemoryError) or any(x in message.lower() for x in signs)
    return plain(message) + (_MEMORY if little else "")


@contextlib.contextmanager
def _interruptible(*, is_last: bool) -> Iterator[list[int]]:
    """Let Ctrl-C, SIGTERM and SIGHUP end what runs within as an exception does: it tidies up.

    Within the context a warning is one line, as an error is.

    Args:
        is_last: the interpreter ends afterwards, and Ctrl-C must not disturb that.

    Yields:
        The signals that came.
    """
    came, before, form = [], {}, warnings.formatwarning

    def interrupt(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    warnings.formatwarning = lambda text, *_, **__: f"decoder-only: {plain(text)}\n"
    # torchrun counts on its processes to end at once, wherever they are.
    names = ("SIGINT",) if "RANK" in os.environ else ("SIGINT", "SIGTERM", "SIGHUP")
    for name in names if threading.current_thread() is threading.main_thread() else ():
        number = getattr(signal, name, None)  # Windows knows no SIGHUP
        if number and signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` asks
            before[number] = signal.signal(number, interrupt)
    try:
        yield came
    finally:
        warnings.formatwarning = form
        for number, handler in before.items():
            ends = is_last and number == signal.SIGINT
            signal.signal(number, signal.SIG_IGN if ends else handler)


def _run(name: str, *words: str) -> int:
    added = entry_points(group="decoder_only.commands")
    if name in ("-h", "--help"):
        print("usage: decoder-only COMMAND [OPTIONS]\n")
        others = dict.fromkeys(sorted(added.names), "Added; its --help explains it.")
        for command, summary in (COMMANDS | others).items():
            print(f"  {command:10}{summary}")
        examples = (__doc__ or "").split("\n\n")[1]
        print(f"\nFor instance:\n\n{examples}\n")
        print("`decoder-only COMMAND --help` explains its options.")
    elif name == "--version":
        from decoder_only import __version__

        print(f"decoder-only {__version__}")
    elif name not in {*COMMANDS, *added.names}:
        said = f"there is no command {name!r}; choose one of {', '.join([*COMMANDS, *added.names])}"
        print(f"decoder-only: {said}", file=sys.stderr)
        return 2
    else:
        # Before the imports, which take seconds. Of several processes the first speaks, and
        # stdout is kept for what was asked for.
        is_own = name in COMMANDS
        if is_own and "--quiet" not in words and os.environ.get("RANK", "0") == "0":
            print(f"decoder-only {name}: loading PyTorch …", file=sys.stderr)
        import tyro

        own = f"decoder_only.cli.{name}"
        command = getattr(import_module(own), name) if is_own else added[name].load()
        return tyro.cli(command, prog=f"decoder-only {name}", args=list(words)) or 0
    return 0
