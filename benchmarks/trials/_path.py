"""Puts the folder above on the path: a trial imports the helpers that all benchmarks share."""

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHMARKS))

TABLES = BENCHMARKS.parent / "src" / "decoder_only" / "stored" / "trials"
"""Where the tables of the trials lie: in the package, for `stored.load_runs`."""
