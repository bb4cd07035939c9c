"""Kernels that start warm are kernels like others: they run, are interrupted, and leave nothing."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

PROGRAM = str(Path(__file__).resolve().parent.parent / "tools" / "warm_kernel.py")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="forks; elsewhere each kernel starts from nothing"
)


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("kernels") / "door")
    with subprocess.Popen([sys.executable, PROGRAM, "serve", path]) as server:
        yield path
        server.terminate()


@pytest.fixture
def kernel(door, tmp_path):
    """Gives a function that runs code in a new kernel, and says what came of it."""
    argv = [sys.executable, "-S", "-E", PROGRAM, "start", door, "{connection_file}"]
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


def test_it_has_imported_what_takes_long_and_nothing_else_of_ours(kernel):
    code = "import sys; print([x in sys.modules for x in ('torch', 'decoder_only')])"
    assert kernel(code) == "[True, False]\n"


def test_it_has_the_folder_and_the_environment_that_it_was_given(kernel, tmp_path):
    code = "import os; print(os.getcwd(), os.environ['SAID'], __name__)"
    assert kernel(code) == f"{tmp_path} hello __main__\n"


def test_it_can_be_interrupted_and_goes_on(kernel):
    code = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)"
    assert kernel(code, interrupted=True) == "begun\nKeyboardInterrupt"
    assert kernel("print(1)") == "1\n"


def test_it_ends_with_the_process_that_jupyter_knows(kernel):
    child = int(kernel("import os; print(os.getpid())"))
    kernel.manager.provisioner.process.kill()
    for _ in range(100):
        if not Path(f"/proc/{child}").exists():
            return
        time.sleep(0.1)
    pytest.fail("the kernel is still there")
