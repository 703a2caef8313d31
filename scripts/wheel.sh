#!/usr/bin/env bash
# Builds the Python package: a wheel that holds its own Highway, and a source distribution, in build/python/dist.
#   TOST_TORCH=PATH   compile against the headers of this torch (2.11 or newer)
#   JOBS=N            compile N files at a time
set -euo pipefail
cd "$(dirname "$0")/.."

# The tools hide the python3 on PATH, whose torch comes before that of .venv.
if [ -z "${TOST_TORCH:-}" ] && python3 -c "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"; then
  TOST_TORCH=$(command -v python3)
  export TOST_TORCH
fi
. scripts/wheel_tools.sh
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-1}
rm -rf "$work"/dist/tost-* "$work/raw"
python -m build -q --sdist --no-isolation --skip-dependency-check -o "$work/dist" python
python -m build -q --wheel --no-isolation --skip-dependency-check -o "$work/raw" -C "build-dir=$work/cmake" python
# torch and what comes with it are the user's; Highway goes into the wheel.
auditwheel -v repair --exclude 'libtorch*' --exclude 'libc10*' --exclude 'libgomp*' -w "$work/dist" "$work"/raw/*.whl \
  > "$work/auditwheel.log" 2>&1 || { cat "$work/auditwheel.log"; exit 1; }
abi3audit --strict "$work"/dist/tost-*.whl
ls -1s --block-size=KiB "$work"/dist/tost-*
