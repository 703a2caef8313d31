#!/usr/bin/env bash
# The tests of a build for 64-bit Windows under wine: of all rooms that need no torch, then of the program with models of
# tests/golden, whose predictions and texts must be those of other systems.
#   test_windows.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath "$1")
work=$(mktemp -d)
export WINEPREFIX=$work/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" WINEPATH="Z:${folder//\//\\}"
run=/usr/lib/wine/wine64
server=/usr/lib/wine/wineserver64
trap '$server -k || true; $server -w || true; rm -rf "$work"' EXIT
$run wineboot --init > /dev/null 2>&1 || true
for test in "$folder"/tests/*_tests.exe; do
  basename "$test" .exe
  # A death test starts its own program again, which wine is slow at.
  "$run" "$test" --gtest_filter=-*DeathTest* --gtest_brief=1
done
printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$run" "$folder/tost.exe" > "$work/tost"
chmod +x "$work/tost"
python3 tests/cli_golden_test.py "$work/tost" --small
