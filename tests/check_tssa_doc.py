#!/usr/bin/env python3
"""Checks that docs/tssa.md shows the scalar reference of tost/kernels/tssa_kernel_test.cc, line by line.

usage: check_tssa_doc.py SOURCE_DIR
"""
import pathlib
import sys

root = pathlib.Path(sys.argv[1])
kernel = (root / "tost/kernels/tssa_kernel_test.cc").read_text()
begin = kernel.index("void tssa_reference(")
reference = kernel[begin : kernel.index("\n}\n", begin) + 3]
if f"```cpp\n{reference}```" not in (root / "docs/tssa.md").read_text():
    sys.exit("docs/tssa.md does not show tssa_reference() of tost/kernels/tssa_kernel_test.cc; copy it there")
