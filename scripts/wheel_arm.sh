#!/usr/bin/env bash
# Builds the wheel of the Python package for 64-bit Arm with Debian's cross compiler, in build/python/arm.
#   TOST_TORCH=PATH   compile against the headers of this torch (2.11 or newer), also one for another machine
#   JOBS=N            compile N files at a time
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup_arm.sh
. scripts/wheel_tools.sh
root=$PWD/build/arm-root
export LD_LIBRARY_PATH=$root/usr/lib/aarch64-linux-gnu  # where Highway is found for the wheel
build_wheel "$work/arm" "$work/raw_arm" "$root" -C "build-dir=$work/cmake_arm" -C wheel.tags=cp310-abi3-linux_aarch64 \
  -C "cmake.define.CMAKE_TOOLCHAIN_FILE=$PWD/cmake/aarch64.cmake"
