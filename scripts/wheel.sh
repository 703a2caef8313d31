#!/usr/bin/env bash
# Builds the Python package: a wheel that holds its own Highway, and a source distribution, in build/python/dist.
#   TOST_TORCH=PATH   compile against the headers of this torch (2.11 or newer)
#   JOBS=N            compile N files at a time
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/wheel_tools.sh
rm -f "$work"/dist/tost-*.tar.gz
python -m build -q --sdist --no-isolation --skip-dependency-check -o "$work/dist" python
build_wheel "$work/dist" "$work/raw" "" -C "build-dir=$work/cmake"
