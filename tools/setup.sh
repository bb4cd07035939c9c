#!/bin/sh
# Sets up the virtual environment .venv, once: pinned requirements, and this package, editable.
# Called by every make target that needs it. When all is in place it does nothing, in a blink.
# PYTHON chooses the interpreter.
set -u
cd "$(dirname "$0")/.." || exit 1

stop() {
    printf 'decoder-only: %s\n' "$1" >&2
    exit 1
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# True when every pinned requirement is there at its version, and the package is this folder's.
complete() {
    .venv/bin/python -I - 2>/dev/null <<'CHECK'
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

for line in Path("requirements.txt").read_text().splitlines():
    name, _, pin = line.partition("#")[0].strip().partition("==")
    if name and version(name).split("+")[0] != pin:  # torch may add "+cpu"
        sys.exit(1)
package = Path(find_spec("decoder_only").origin).resolve()
sys.exit(package.parent != Path("src/decoder_only").resolve())
CHECK
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null || stop "PYTHON=$PYTHON is not there; name a Python 3.11 or newer."
        new_enough "$PYTHON" || stop "PYTHON=$PYTHON is too old ($("$PYTHON" --version 2>&1)); this book needs Python 3.11 or newer."
        return
    fi
    for PYTHON in python3.13 python3.12 python3.11 python3 python; do
        new_enough "$PYTHON" && return
    done
    found=$(python3 --version 2>/dev/null) || found=""
    stop "no Python 3.11 or newer found${found:+ (python3 is $found)}; install one (https://www.python.org/downloads/) or say where it is: make book PYTHON=/path/to/python3.13"
}

# Runs pip quietly. When it fails: one line that says why, as far as can be told, and what to do.
quiet_pip() {
    .venv/bin/python -m pip --disable-pip-version-check install --quiet --retries 2 "$@" >.venv/pip.log 2>&1 && return
    if grep -q -i -E 'connection broken|new connection|name resolution|unreachable|timed out|ProxyError|SSLError' .venv/pip.log; then
        stop "could not reach the package index: connect this machine to the network (or set PIP_INDEX_URL to a mirror), then run make again. Details: .venv/pip.log"
    fi
    tail -n 5 .venv/pip.log >&2
    stop "pip could not install the requirements, see .venv/pip.log; run make again when the cause is gone, or make clean-venv to start afresh."
}

stamp=.venv/.complete
if [ "$stamp" -nt requirements.txt ] && [ "$stamp" -nt pyproject.toml ] && complete; then
    exit 0
fi

if [ -e .venv ] && ! new_enough .venv/bin/python; then
    echo "The virtual environment .venv is broken (its Python does not run): building it anew."
    rm -rf .venv || stop "could not remove .venv; remove it by hand, then run make again."
fi
if [ ! -e .venv ]; then
    find_python
    echo "Setting up .venv with $("$PYTHON" --version), once: about 2 GB, more where PyTorch brings CUDA."
    echo "This takes some minutes, and nothing is shown meanwhile."
    said=$("$PYTHON" -m venv .venv 2>&1) || {
        rm -rf .venv
        printf '%s\n' "$said" | head -n 3 >&2
        stop "$PYTHON cannot make a virtual environment; on Debian or Ubuntu: apt-get install python3-venv. Then run make again."
    }
else
    echo "Bringing .venv up to date."
fi
rm -f "$stamp"
quiet_pip --requirement requirements.txt
quiet_pip --no-deps --no-build-isolation --editable .
complete || stop "the virtual environment is still incomplete after the installation; run make clean-venv, then make again."
touch "$stamp"
