"""The page that shows the forward pass: in step with the source, complete, and short."""

import os
import subprocess
import sys

import forward_pass
import pytest
from layout import SOURCE

# In a process of its own: run-time checks of annotations would stand between the calls.
FOLLOW = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from ladder import VARIANTS, build, random_ids

ran = set()

def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(sys.argv[2] + "/decoder_only/"):
        module = code.co_filename[len(sys.argv[2]) + 1 : -3].replace("/", ".")
        ran.add(f"{module} {code.co_qualname.partition('.<')[0]}")

for variant in VARIANTS:
    model, ids = build(**variant.values[0]), random_ids(length=9)
    for padding in (None, torch.tensor([0, 3])):
        cache = model.new_cache(2, padding=padding)
        sys.setprofile(note)
        model(ids)
        for piece in ids.split([6, 1, 2], dim=1):
            model(piece, cache, last_only=True)
        sys.setprofile(None)
print(*sorted(ran), sep="\\n")
"""


def test_the_page_is_in_step_with_the_package():
    text = forward_pass.PAGE.read_text(encoding="utf-8")
    assert text == forward_pass.page(), "run python tools/forward_pass.py"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs co_qualname")
def test_everything_that_runs_is_on_the_page():
    command = [sys.executable, "-c", FOLLOW, os.path.dirname(__file__), str(SOURCE)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    ran = [line.split() for line in run.stdout.splitlines()]
    assert len(ran) > 20
    for module, name in ran:
        shown = forward_pass.PATH.get(module, ())
        whole, _, _ = name.partition(".")
        assert name in shown or whole in shown, f"{module}.{name} ran, and is not shown"


def test_the_forward_pass_is_read_in_one_sitting():
    assert forward_pass.n_lines() <= 600
