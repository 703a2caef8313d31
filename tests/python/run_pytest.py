"""Runs one test file by pytest, or exits with 77 (ctest: skipped) and the reason where a module is missing.

usage: run_pytest.py FILE MODULE...
"""
import importlib
import sys

for module in ["pytest", *sys.argv[2:]]:
    try:
        importlib.import_module(module)
    except ImportError as missing:
        print(f"skipped: {missing}")
        sys.exit(77)

import pytest  # noqa: E402

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", sys.argv[1]]))
