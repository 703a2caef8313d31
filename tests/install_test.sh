#!/usr/bin/env bash
# Installs the build into a fresh folder, builds examples/find_package against it alone, and runs both.
#   install_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build=$1 source=$2 work=$1/install-test
rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >"$work.log"
cmake -S "$source/examples/find_package" -B "$work/example" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
      -DCMAKE_PREFIX_PATH="$work/prefix" >>"$work.log"
cmake --build "$work/example"
"$work/example/example"
"$work/prefix/bin/tost" --version
rm -rf "$work" "$work.log"
