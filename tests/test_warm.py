"""Processes that start warm are processes like others, and so are kernels; they leave nothing."""

import multiprocessing.spawn
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import warm
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open") or "DECODER_ONLY_COLD" in os.environ,
    reason="each process starts from nothing",
)


def gone(child: int) -> bool:
    for _ in range(100):
        if not Path(f"/proc/{child}").exists():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(autouse=True)
def interruptible():
    """Also where a shell has the tests in its background, which ignore Ctrl-C from birth."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# ------------------------------------------------------------------------------------- programs

SAYS_ALL = """
import os, signal, sys
print(sys.argv, sys.path[0], os.getcwd(), os.environ["SAID"], __name__)
print(sys.stdin.read(), file=sys.stderr)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
print(sys.modules["__main__"].__dict__ is globals(), [*globals()][0])
"""
# How it ends, and the last line of its error.
ENDS = {
    "pass": (0, ""),
    "import sys; sys.exit(7)": (7, ""),
    "import sys; sys.exit('no')": (1, "no"),
    "1 / 0": (1, "ZeroDivisionError: division by zero"),
    "raise KeyboardInterrupt": (-signal.SIGINT, "KeyboardInterrupt"),
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": (-signal.SIGKILL, ""),
    "import atexit; atexit.register(print, 'end')": (0, ""),
    "import threading; threading.Timer(0.1, print, ['end']).start()": (0, ""),
    "import os; assert len(os.listdir('/proc/self/fd')) == 4": (0, ""),
}


@pytest.mark.parametrize("kind", ["cold", "warm"])
def test_a_warm_process_is_one_like_others(kind, tmp_path):
    python = warm.python() if kind == "warm" else (sys.executable,)
    settings = {"capture_output": True, "text": True, "cwd": tmp_path}
    given = {**settings, "env": {**os.environ, "SAID": "hello"}, "input": "asked"}
    done = subprocess.run([*python, "-c", SAYS_ALL, "a", "b c"], **given)
    assert (done.returncode, done.stderr) == (0, "asked\n")
    assert done.stdout.splitlines() == [
        f"['-c', 'a', 'b c']  {tmp_path} hello __main__",
        "True",
        "True __name__",
    ]
    reads, writes = os.pipe()
    code = f"import os; os.write({writes}, b'through a file')"
    subprocess.run([*python, "-c", code], check=True, pass_fds=[writes])
    assert os.read(reads, 99) == b"through a file"
    os.close(reads)
    os.close(writes)
    for code, (status, said) in ENDS.items():
        done = subprocess.run([*python, "-c", code], **settings)
        assert done.returncode == status, code
        assert said in (done.stderr.splitlines() or [""])[-1], code
        assert done.stdout == "end\n" * ("end" in code), code
        assert done.stderr.count("File") == done.stderr.count('File "<string>"'), code
    (tmp_path / "beside.py").write_text("found = 3")
    (tmp_path / "program.py").write_text(
        "import sys, beside; print(__file__, sys.argv, beside.found, sys.path[0])"
    )
    for words in (["program.py", "x"], ["-m", "program", "x"]):
        done = subprocess.run([*python, *words], **settings)
        file = "program.py" if words[0] != "-m" else f"{tmp_path}/program.py"
        said = f"{tmp_path}/program.py ['{file}', 'x'] 3 {tmp_path}\n"
        assert done.stdout == said, done.stderr


def test_it_has_imported_what_takes_long_and_a_kernel_nothing_of_ours():
    code = "import sys; print(*(x in sys.modules for x in ('torch', 'decoder_only')))"
    for kind, said in (("tests", "True True\n"), ("kernels", "True False\n")):
        assert (
            subprocess.check_output([*warm.python(kind), "-c", code], text=True) == said
        )


def test_processes_that_multiprocessing_spawns_can_be_warm():
    asked = "'torch._dynamo' in __import__('sys').modules"
    before = multiprocessing.spawn.get_executable()
    with (
        warm.spawning(),
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool,
    ):
        assert pool.submit(eval, asked).result()
    assert multiprocessing.spawn.get_executable() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_its_caller_sends_it_gets(number):
    code = "import os, signal, sys, time\n"
    code += "for x in (2, 15): signal.signal(x, lambda number, _: sys.exit(number))\n"
    code += "print(os.getpid(), flush=True); time.sleep(60)"
    words = [*warm.python(), "-c", code]
    with subprocess.Popen(words, stdout=-1, text=True) as process:
        child = int(process.stdout.readline())
        process.send_signal(number)
    assert process.returncode == (-number if number == signal.SIGKILL else number)
    assert gone(child)


RUN = """
import os, subprocess, sys
sys.path.append(sys.argv[1])
import warm
folder, warm.KINDS = sys.argv[2], {"root": [], "tests": []}
door = warm._door(folder + "/root")
warm.serve(folder, str(os.getpid()), str(door.detach()))
words = [sys.executable, warm.PROGRAM, "run", folder, "tests", "-c",
         "import os, time; print(os.getppid(), os.getpid(), flush=True); time.sleep(60)"]
process = subprocess.Popen(words, stdout=-1, text=True)
print(process.stdout.readline(), process.pid)
os._exit(0)
"""


def test_the_servers_and_their_processes_end_with_the_run_of_tests(tmp_path):
    words = [sys.executable, "-c", RUN, Path(warm.PROGRAM).parent, tmp_path / "here"]
    (tmp_path / "here").mkdir()
    left = subprocess.check_output(words, text=True).split()
    assert len(left) == 3
    assert all(gone(int(process)) for process in left)
    assert not (tmp_path / "here").exists()


# -------------------------------------------------------------------------------------- kernels


@pytest.fixture
def kernel(tmp_path):
    """Gives a function that runs code in a new kernel, and says what came of it."""
    argv = [
        *warm.python("kernels"),
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
    ]
    manager = KernelManager()
    manager._kernel_spec = KernelSpec(argv=argv, language="python")
    manager.start_kernel(cwd=str(tmp_path), env={**os.environ, "SAID": "hello"})
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)

    def run(code: str, interrupted: bool = False) -> str:
        printed = []

        def seen(message):
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])
                if interrupted:
                    manager.interrupt_kernel()

        reply = client.execute_interactive(code, output_hook=seen, timeout=60)
        return "".join(printed) + reply["content"].get("ename", "")

    run.manager = manager
    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_kernel_is_given_a_folder_is_interrupted_and_ends_with_what_jupyter_knows(
    kernel, tmp_path
):
    code = "import os; print(os.getcwd(), os.environ['SAID'], __name__)"
    assert kernel(code) == f"{tmp_path} hello __main__\n"
    code = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)"
    assert kernel(code, interrupted=True) == "begun\nKeyboardInterrupt"
    child = int(kernel("import os; print(os.getpid())"))
    kernel.manager.provisioner.process.kill()
    assert gone(child)
