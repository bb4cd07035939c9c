"""Processes that have imported PyTorch before they start, so that a hundred import it once.

    subprocess.run([*python(), "-c", code])    instead of [sys.executable, "-c", code]

Importing PyTorch and its compiler takes five seconds of a processor, and every notebook and every
process of the tests begins with it. A server imports them, computes nothing, and forks a process
for each who asks. The child becomes an ordinary program, with the words, the folder, the
environment and the streams that it was given. The process that the caller knows waits for that
child, hands signals on, and ends as it ends.

There are two kinds, each with a server of its own that has imported more: "kernels" for notebooks,
which knows nothing of ours, and "tests". The first who asks starts them, whichever process of a
run of tests that is, and they end with the run.

Only the checks use this, and only where a process can be forked safely. What must be an
interpreter that has imported nothing is started as `sys.executable`. So is everything with
`DECODER_ONLY_COLD=1`.
"""

# Few, and the rest where it is needed: the process that waits for a warm one starts with these.
import contextlib
import functools
import json
import os
import signal
import socket
import sys

PROGRAM = os.path.abspath(__file__)
# What each kind has imported. The root is nobody's kind: the others are its copies.
KINDS = {
    "root": ["torch", "torch._dynamo", "tabulate"],  # the last, as the compiler ends
    "kernels": ["ipykernel.kernelapp", "matplotlib.pyplot"],
    "tests": [
        *("pytest", "hypothesis", "matplotlib.pyplot", "tyro", "tqdm", "tiktoken"),
        *("torch.distributed.fsdp", "torch.distributed.tensor", "torch.utils.data"),
        *("decoder_only.cli.train", "decoder_only.cli.sample", "decoder_only.cli.info"),
        *("decoder_only.cli.plot", "decoder_only.cli.prepare", "decoder_only.hub"),
    ],
}
SERVER = "DECODER_ONLY_WARM"
"""Names, in a warm process, the folder of the server that it comes from."""
MOST_BYTES = 2**18
"""Of a message: the words and the environment of a program."""


# ------------------------------------------------------------------------------------ who asks


@functools.cache
def python(kind: str = "tests") -> tuple[str, ...]:
    """The words that start a Python, as `sys.executable` does, which has imported a kind's modules.

    They may stand before `-c CODE`, `-m MODULE` or a file, and what follows is the program's.
    """
    if os.environ.get("DECODER_ONLY_COLD") or not _is_told_of_ends():
        return (sys.executable,)
    return (sys.executable, "-S", "-E", PROGRAM, "run", _server(), kind)


def _is_told_of_ends() -> bool:
    """Whether the system says when a process ends, as Linux does where a sandbox lets it."""
    # Elsewhere a process with threads may not be forked, either.
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


@contextlib.contextmanager
def spawning(kind: str = "tests"):
    """Within the context, processes that `multiprocessing` spawns are warm ones."""
    import multiprocessing.spawn
    import shlex

    before = multiprocessing.spawn.get_executable()
    if len(words := python(kind)) > 1:
        script = os.path.join(words[-2], f"spawn-{kind}")
        with open(script, "w") as file:
            file.write(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        os.chmod(script, 0o700)
        multiprocessing.set_executable(script)
    try:
        yield
    finally:
        multiprocessing.set_executable(before)


def _server() -> str:
    """The folder of the server of this run of tests, which is started if there is none."""
    import fcntl
    import tempfile

    if SERVER in os.environ:
        return os.environ[SERVER]
    # The processes among which pytest-xdist divides the tests are children of one.
    run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder = os.path.join(tempfile.gettempdir(), f"warm-{os.getuid()}-{run}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there:
            if there.connect_ex(f"{folder}/root"):
                _start(folder, run)
    return folder


def _start(folder: str, run: int) -> None:
    import subprocess

    door = _door(f"{folder}/root")  # at which others may wait from now on
    words = [sys.executable, PROGRAM, "serve", folder, str(run), str(door.fileno())]
    subprocess.run(
        words, check=True, pass_fds=[door.fileno()], stdin=subprocess.DEVNULL
    )
    door.close()


def _door(path: str) -> socket.socket:
    if os.path.exists(path):
        os.unlink(path)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.bind(path)
    door.listen(64)
    return door


def run(folder: str, kind: str, *words: str) -> None:
    """Ask for a process that is told these words, hand signals on, and end as it ends."""
    # Its own files, as `subprocess` was told to pass them on; those that follow are ours.
    files = [n for n in map(int, os.listdir("/proc/self/fd")) if _is_open(n)]
    server = _connected(f"{folder}/root")
    server.sendall(json.dumps({"kind": kind}).encode())
    server.recv(1)  # the kind's server is there, or will be
    call = _connected(f"{folder}/{kind}")
    told = {"words": words, "folder": os.getcwd(), "files": files}
    told["environment"] = {**os.environ, SERVER: folder}
    if "JPY_PARENT_PID" in os.environ:
        # A kernel watches the process of this number, and ends when it is gone.
        told["environment"]["JPY_PARENT_PID"] = "1"
    socket.send_fds(call, [json.dumps(told).encode()], files)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, _: call.sendall(bytes([number])))
    answer = call.recv(4)
    if not answer:
        sys.exit("the server of warm processes is gone")
    status = int.from_bytes(answer, "little", signed=True)
    if status < 0:
        _end_by(-status)
    os._exit(status)


def _is_open(number: int) -> bool:
    try:
        return bool(os.fstat(number))
    except OSError:
        return False  # it was the list itself


def _end_by(number: int) -> None:
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _connected(path: str) -> socket.socket:
    call = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    call.connect(path)
    return call


# --------------------------------------------------------------------------------- who answers


def serve(folder: str, run: str, door: str) -> None:
    """Fork a process for each who asks, until the run of tests is over."""
    import shutil

    if os.fork():
        return  # nobody has to wait for the server
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watched = os.pidfd_open(int(run))
    Server("root", folder, socket.socket(fileno=int(door)), watched).answer()
    shutil.rmtree(folder)
    os._exit(0)


class Server:
    """A process of one kind, which forks others of its kind."""

    def __init__(self, kind: str, folder: str, door: socket.socket, watched: int):
        self.kind, self.folder, self.door, self.watched = kind, folder, door, watched
        self.kinds: set[str] = set()
        # By the number of the file in which its end is seen.
        self.children: dict[int, tuple[int, socket.socket]] = {}
        self.calls: dict[int, int] = {}
        _import(kind)

    def answer(self) -> None:
        import select

        while True:
            files = [self.door, self.watched, *self.children, *self.calls]
            ready, _, _ = select.select(files, [], [])
            for file in ready:
                if file is self.door:
                    self._open()
                elif file == self.watched:
                    return self._end()
                elif file in self.children:
                    self._child_has_ended(file)
                elif file in self.calls:
                    self._caller_says(file)

    def _open(self) -> None:
        call, _ = self.door.accept()
        message, files, *_ = socket.recv_fds(call, MOST_BYTES, 250)
        told = json.loads(message or "{}")
        if "kind" in told:
            self._have(told["kind"], call)
        elif told and not (child := os.fork()):
            self._forget()
            call.close()
            _become(told, files)
        elif told:
            ended = os.pidfd_open(child)
            self.children[ended] = child, call
            self.calls[call.fileno()] = ended
            call.setblocking(False)
        for file in files:
            os.close(file)

    def _have(self, kind: str, call: socket.socket) -> None:
        """Have a server of a kind, and say so when its door is there to wait at."""
        door, parent = None, os.getpid()
        if kind not in self.kinds:
            self.kinds.add(kind)
            door = _door(f"{self.folder}/{kind}")
        call.sendall(b"!")
        call.close()
        if door is None:
            return
        if os.fork():
            door.close()
            return
        self._forget()
        Server(kind, self.folder, door, os.pidfd_open(parent)).answer()
        os._exit(0)

    def _forget(self) -> None:
        """In a child: what was the server's."""
        self.door.close()
        os.close(self.watched)
        for ended, (_, call) in self.children.items():
            os.close(ended)
            call.close()
        self.children, self.calls = {}, {}

    def _child_has_ended(self, ended: int) -> None:
        child, call = self.children.pop(ended)
        self.calls.pop(call.fileno(), None)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(OSError):  # the caller may be gone
            call.sendall(status.to_bytes(4, "little", signed=True))
        call.close()
        os.close(ended)

    def _caller_says(self, call: int) -> None:
        """A signal to hand on; or nothing, as it is gone."""
        child, said = self.children[self.calls[call]]
        try:
            number = said.recv(1) or bytes([signal.SIGKILL])
        except OSError:
            number = bytes([signal.SIGKILL])
        os.kill(child, number[0])
        if number[0] == signal.SIGKILL:
            del self.calls[call]  # and its end is all that is left to see

    def _end(self) -> None:
        for child, _ in self.children.values():
            os.kill(child, signal.SIGKILL)


def _import(kind: str) -> None:
    import gc
    import weakref

    # As a kernel sets it before anything can import Matplotlib.
    inline = "module://matplotlib_inline.backend_inline"
    os.environ["MPLBACKEND"] = inline if kind == "kernels" else "agg"
    if kind == "tests":
        sys.path.append(os.path.dirname(PROGRAM))  # as `tests/conftest.py` has it
    for name in KINDS[kind]:
        __import__(name)
    # What the imports leave to do at the end of a process serves nobody when it is over.
    for each in list(weakref.finalize._registry):
        each.atexit = False
    gc.collect()
    gc.freeze()  # or each child would copy the memory in which objects are counted


# ---------------------------------------------------------------------------------- the process


def _become(told: dict, files: list[int]) -> None:
    """The program that is asked for, from its first line to its exit status."""
    import fcntl

    os.setsid()
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    # First out of the way of the numbers that they have had and shall have again.
    aside = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 500) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(aside, told["files"], strict=True):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    sys.stderr.reconfigure(line_buffering=True, errors="backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os._exit(_status_of(told["words"]))


def _status_of(words: list[str]) -> int:
    import atexit
    import threading

    code, interrupted = 0, False
    try:
        _execute(words)
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        trace = _after(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        code, interrupted = 1, isinstance(error, KeyboardInterrupt)
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120  # as Python says that the reader is gone
    if interrupted:
        _end_by(signal.SIGINT)
    return (code or 0) & 0xFF


def _after(trace):
    """A traceback without this file's own lines."""
    while trace.tb_next and trace.tb_frame.f_code.co_filename == PROGRAM:
        trace = trace.tb_next
    return trace


def _execute(words: list[str]) -> None:
    import builtins
    import runpy
    import types

    first, *others = words
    while first.startswith("-") and first not in ("-c", "-m"):
        first, *others = others[first in ("-W", "-X") :]  # too late for options
    path = os.environ.get("PYTHONPATH", "")
    sys.path[1:1] = [place for place in path.split(os.pathsep) if place]
    if first == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = others
        return runpy._run_module_as_main(others[0])
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    if first == "-c":
        sys.path[0], code, name = "", others.pop(0), "<string>"
        sys.argv = ["-c", *others]
    else:
        sys.path[0], name = os.path.dirname(os.path.abspath(first)), first
        sys.argv, main.__file__ = [first, *others], os.path.abspath(first)
        with open(first, "rb") as file:
            code = file.read()
    exec(compile(code, name, "exec"), vars(main))


if __name__ == "__main__":
    {"serve": serve, "run": run}[sys.argv[1]](*sys.argv[2:])
