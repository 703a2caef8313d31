#!/usr/bin/env bash
# Installs the build into a fresh folder, builds examples/find_package against it alone, and runs both. Then compiles each
# header that docs/cpp.md names by itself: a program may include any one of them alone.
#   install_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build=$1 source=$2 work=$1/install-test
rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >"$work.log"
cmake -S "$source/examples/find_package" -B "$work/example" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
      -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_PREFIX_PATH="$work/prefix" >>"$work.log"
cmake --build "$work/example"
"$work/example/example"
prefix=$work/prefix
cc -std=c99 -Wall -Wextra -Werror "$source/examples/c/write.c" -I"$prefix/include" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -ltost \
   -o "$work/write"
"$work/write" "$prefix/share/tost/models/words.safetensors" "The king" 40 | tail -1 | grep -q '^4[0-9] tokens read, \([0-9]*\) bytes of state, \1 before'
"$work/prefix/bin/tost" --version
"$work/prefix/bin/tost" models | grep -q '^words '
headers=$(grep -oE '^\| `tost/[^`]+\.h`' "$source/docs/cpp.md" | tr -d '|` ')
test "$(wc -w <<<"$headers")" -gt 10
compile=$(grep -m1 '"command"' "$work/example/compile_commands.json" | sed -E 's/^ *"command": "//; s/ -o .*//; s/\\"/"/g')
for header in $headers; do
  printf '#include "%s"\n' "$header" >"$work/$(tr / _ <<<"$header").cc"
done
printf '%s\0' "$work"/tost_*.cc | xargs -0 -P2 -I{} sh -c "$compile -fsyntax-only {} || { echo '{} does not compile alone'; exit 255; }"
rm -rf "$work" "$work.log"
