"""A process that opens hostile files for `test_hostile`: with little memory and time, and watched.

It reads orders from standard input, one JSON line each, and answers each by one line that says how
the command, or the reading of tokens, ended.
"""

import contextlib
import ctypes
import io
import json
import os
import resource
import signal
import sys
import time
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("agg")

from matplotlib import pyplot

from decoder_only import cli
from decoder_only.data import evaluation_batches, training_batch
from decoder_only.data.prepared import open_tokens

BYTES, SECONDS = 2**30, 5
M_ARENA_MAX = -8  # of malloc.h

# What would run another program, load code, or go out: none of it belongs to reading a file.
WATCHED = {
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.system",
    "pickle.find_class",
    "socket.connect",
    "subprocess.Popen",
}
seen: list[str] = []
folder = Path(sys.argv[1]).resolve()


def watch(event: str, arguments: tuple) -> None:
    if event in WATCHED:
        seen.append(f"{event} {arguments!r:.200}")
    if event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
        path = Path(str(arguments[0])).resolve()
        if folder not in path.parents:
            seen.append(f"writes {path}")


class TooLongError(BaseException):
    """Not an Exception, which somebody might catch."""


def stop(*_) -> None:
    raise TooLongError


def read_tokens(path: str) -> int:
    """What a training does with a folder of tokens before its first step, and at its end."""
    try:
        prepared = open_tokens(path)
        for corpus in (prepared.train, prepared.validation):
            size = {"batch_size": 2, "context_length": 4}
            batch = [*training_batch(corpus, seed=0, step=0, **size)]
            batch += [
                ids for pair in evaluation_batches(corpus, **size) for ids in pair
            ]
            assert max(ids.max() for ids in batch) < prepared.tokenizer.vocab_size
            assert 0 < corpus.bytes_per_token < float("inf")
    except (ValueError, OSError) as error:
        print(f"decoder-only: {error}", file=sys.stderr)
        return 1
    return 0


def obey(order: list[str]) -> dict[str, object]:
    seen.clear()
    said = io.StringIO()
    begin, answer = time.process_time(), {"status": None, "raised": None}
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with (
            contextlib.redirect_stderr(said),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            reads = order[0] == "tokens"
            answer["status"] = read_tokens(order[1]) if reads else cli.main(order)
    except BaseException as error:
        answer["raised"] = f"{type(error).__name__}: {error!s:.300}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        pyplot.close("all")  # a command draws one figure, and this process hundreds
    seconds = time.process_time() - begin
    # What every command says first; the rest is the refusal.
    refusal = said.getvalue().removeprefix(
        f"decoder-only {order[0]}: loading PyTorch …\n"
    )
    return {**answer, "said": refusal, "seen": seen, "seconds": seconds}


def main() -> None:
    # One stretch of memory for all threads: each other one would take room that nobody uses.
    ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, stop)
    out = sys.stdout
    for number, line in enumerate(sys.stdin):
        answer = obey(json.loads(line))
        if number == 1:  # two good files were read: all is imported
            held = int(Path("/proc/self/statm").read_text().split()[0])
            most = held * resource.getpagesize() + BYTES
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            sys.addaudithook(watch)
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
