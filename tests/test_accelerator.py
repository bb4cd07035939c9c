"""What would fail on a GPU, or wait for it without need, is found without one."""

import json
import subprocess
from pathlib import Path

import pytest
import warm
from torch.utils import backend_registration

PROGRAM = Path(__file__).with_name("accelerator.py")


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this PyTorch takes no device from Python",
)
def test_everything_runs_beside_its_model_and_waits_for_nothing():
    command = [*warm.python(), PROGRAM]
    said = subprocess.check_output(command, text=True, timeout=240)
    went_wrong = json.loads(said.splitlines()[-1])
    assert not went_wrong, "\n".join(f"{k}: {v}" for k, v in went_wrong.items())
