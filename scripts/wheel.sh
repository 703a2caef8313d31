#!/usr/bin/env bash
# Builds the Python package in build/python/dist: a wheel with kernels that holds its own Highway, a wheel without kernels for
# every system, and a source distribution.
#   wheel.sh pure     the wheel without kernels alone, which takes seconds and needs no compiler
#   TOST_TORCH=PATH   compile against the headers of this torch (2.11 or newer)
#   JOBS=N            compile N files at a time
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/wheel_tools.sh
build_pure_wheel "$work/dist"
[ "${1:-}" != pure ] || exit 0
rm -f "$work"/dist/token_statistics-*.tar.gz
python -m build -q --sdist --no-isolation --skip-dependency-check -o "$work/dist" python
build_wheel "$work/dist" "$work/raw" "" -C "build-dir=$work/cmake"
