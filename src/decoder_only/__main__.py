"""`python -m decoder_only` is the command `decoder-only`, for torchrun and the like."""

import sys

from decoder_only.cli import main

if __name__ == "__main__":
    sys.exit(main())
