#!/usr/bin/env bash
# The tests of a build for another system, by an emulator: of all rooms that need no torch, then of the program with models of
# tests/golden, whose predictions and texts must be those of every system.
#   test_emulated.sh arm|windows FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $1 in
  arm)
    suffix="" root=$PWD/build/arm-root
    run=(qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$root/usr/lib/aarch64-linux-gnu:$root/lib/aarch64-linux-gnu")
    ;;
  windows)
    suffix=.exe run=(/usr/lib/wine/wine64) server=/usr/lib/wine/wineserver64
    export WINEPREFIX=$work/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" WINEPATH="Z:${folder//\//\\}"
    trap '$server -k || true; $server -w || true; rm -rf "$work"' EXIT
    "${run[@]}" wineboot --init > /dev/null 2>&1 || true
    ;;
esac
for test in "$folder"/tests/*_tests$suffix; do
  basename "$test" $suffix
  # A death test starts its own program again, which qemu cannot do and wine is slow at.
  "${run[@]}" "$test" --gtest_filter=-*DeathTest* --gtest_brief=1
done
printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${run[*]}" "$folder/tost$suffix" > "$work/tost"
chmod +x "$work/tost"
python3 tests/cli_golden_test.py "$work/tost" --small
