"""Runs the program tost, which the package tost-cli brings."""

import sys

try:
    from tost_cli import main
except ModuleNotFoundError:
    print(
        'tost: the program is not installed; `pip install "tost[cli]"` installs it, '
        "and `make` in a checkout of tost builds it as build/release/tost.",
        file=sys.stderr,
    )
    sys.exit(2)
main()
