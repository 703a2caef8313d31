#!/usr/bin/env bash
# The tests of a build for 64-bit Arm under qemu: of all rooms that need no torch, then of the program with models of
# tests/golden, whose predictions and texts must be those of other machines.
#   test_arm.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/arm-root
run=(qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$root/usr/lib/aarch64-linux-gnu:$root/lib/aarch64-linux-gnu")
for test in "$1"/tests/*_tests; do
  echo "$(basename "$test")"
  # A death test starts its own program again, which qemu cannot do.
  "${run[@]}" "$test" --gtest_filter=-*DeathTest* --gtest_brief=1
done
program=$(mktemp)
trap 'rm -f "$program"' EXIT
printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${run[*]}" "$(realpath "$1")/tost" > "$program"
chmod +x "$program"
python3 tests/cli_golden_test.py "$program" --small
