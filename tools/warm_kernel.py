"""Kernels that have imported PyTorch before they start, so that forty notebooks import it once.

    python tools/warm_kernel.py serve SOCKET               imports, then forks a kernel for each
    python tools/warm_kernel.py start SOCKET CONNECTION    what Jupyter starts in a kernel's place

Importing PyTorch and Matplotlib takes three seconds of a processor, and every notebook begins with
it. The first optimizer of a notebook imports PyTorch's compiler, which takes two more. A
server imports all of them and computes nothing. For each kernel it forks, and the child becomes an
ordinary kernel with the folder, the environment and the connection file that it was given. The
process that Jupyter knows waits for that child, hands signals on, and ends with it.

Only the checks use this (`tests/conftest.py`), and only where processes can be forked safely.
"""

import json
import os
import signal
import socket
import sys
import time


def serve(path: str) -> None:
    """Fork a kernel for every connection until the process that started this one is gone."""
    # As a kernel sets it before anything can import Matplotlib.
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    import ipykernel.kernelapp  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import torch
    import torch._dynamo  # noqa: F401

    parent = os.getppid()
    children: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        door.settimeout(0.1)
        while os.getppid() == parent:
            try:
                call, _ = door.accept()
            except TimeoutError:
                _look_after(children)
                continue
            words = json.loads(call.makefile().readline())
            child = os.fork()
            if child == 0:
                door.close()
                for other in children.values():
                    other.close()
                call.close()
                _become_a_kernel(**words)
            call.setblocking(False)
            children[child] = call
    for child in children:
        os.kill(child, signal.SIGKILL)


def _look_after(children: dict[int, socket.socket]) -> None:
    """Hand on signals; end a child whose caller is gone, and the caller of a child that is gone."""
    for child, call in list(children.items()):
        try:
            said = call.recv(1)
            os.kill(child, int.from_bytes(said, "big") or signal.SIGKILL)
        except BlockingIOError:
            pass
        except ProcessLookupError:
            pass
        if os.waitpid(child, os.WNOHANG)[0]:
            call.close()
            children.pop(child)


def _become_a_kernel(connection: str, folder: str, environment: dict[str, str]) -> None:
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = ""  # as in any kernel: the notebook's folder
    sys.argv = ["ipykernel_launcher.py", "-f", connection]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    IPKernelApp.launch_instance()
    os._exit(0)


def start(path: str, connection: str) -> None:
    """Ask the server for a kernel, and live as long as it does."""
    call = socket.socket(socket.AF_UNIX)
    while call.connect_ex(path):  # until the server has imported
        time.sleep(0.05)
    words = {
        "connection": connection,
        "folder": os.getcwd(),
        # A kernel watches the process of this number, and ends when it is gone.
        "environment": {**os.environ, "JPY_PARENT_PID": "1"},
    }
    call.sendall(json.dumps(words).encode() + b"\n")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: call.sendall(bytes([number])))
    while True:
        if not call.recv(1):
            return


if __name__ == "__main__":
    {"serve": serve, "start": start}[sys.argv[1]](*sys.argv[2:])
