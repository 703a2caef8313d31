"""Runs the program tost, which the package token-statistics-cli brings."""

import sys

try:
    from tost_cli import main
except ModuleNotFoundError:
    print("tost: the program is not installed; in a checkout of tost, `make` builds it, and `make wheel-cli` with "
          '`pip install --no-index --find-links build/python/dist "token-statistics[cli]"` installs it here.',
          file=sys.stderr)
    sys.exit(2)
main()
