#!/usr/bin/env bash
# How long a build takes on this machine: everything from an empty folder, without ccache, then after a change of one
# source. Prints seconds on the clock and of the processor.
#   bench/build_time.sh [REVISION]
# Clones this repository at REVISION (default HEAD) into a temporary folder, with the torch that this checkout uses.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1
[ -n "${TOST_TORCH:-}" ] || { [ -x "$here/.venv/bin/python" ] && export TOST_TORCH="$here/.venv/bin/python"; }

git clone -q "$here" "$work/tost"
cd "$work/tost"
git checkout -q "${1:-HEAD}"
echo "$(git log -1 --format='%h %s')"
echo "$(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(date +%F)"

row() {  # NAME COMMAND...
  local name=$1 times
  shift
  times=$( { TIMEFORMAT='%R %U %S'; time "$@" >"$work/log" 2>&1; } 2>&1) || { tail -20 "$work/log"; exit 1; }
  awk -v name="$name" -v t="$times" 'BEGIN { split(t, p, " "); printf "%-44s %7.0f s  %7.0f s of the processor\n", name, p[1], p[2] + p[3] }'
}

row "configure" cmake --preset release
row "the program" cmake --build build/release --target tost
row "the rest: libraries for users, all tests" cmake --build build/release
touch tost/kernels/tssa.cc
row "one kernel changed: kernels_tests" cmake --build build/release --target kernels_tests
touch tost/cli/inspect.cc
row "one command changed: the program" cmake --build build/release --target tost
