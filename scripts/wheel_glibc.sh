#!/usr/bin/env bash
# Builds the wheel of the Python package for x86-64 Linux with glibc 2.28 and newer, in build/python/glibc, with the compiler zig
# of the Python index. Highway is compiled from Debian's source package.
#   TOST_TORCH=PATH   compile against the headers of this torch (2.11 or newer)
#   JOBS=N            compile N files at a time
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/wheel_tools.sh
zig=$PWD/build/zig
mkdir -p "$zig"
[ -e "$work/tools/zig-ready" ] || { "$work/tools/bin/pip" install -q --disable-pip-version-check ziglang==0.17.1; touch "$work/tools/zig-ready"; }
for name in c++ ar ranlib; do
  target=; [ $name != c++ ] || target="-target x86_64-linux-gnu.2.28"
  printf '#!/bin/sh\nexec "%s" -m ziglang %s %s "$@"\n' "$work/tools/bin/python" $name "$target" > "$zig/$name"
  chmod +x "$zig/$name"
done
export ZIG_GLOBAL_CACHE_DIR=$zig/cache ZIG_LOCAL_CACHE_DIR=$zig/cache

if ! [ -e "$zig/libhwy.a" ]; then
  . scripts/debian.sh
  apart_for_sources "$zig/apt"
  apt-get "${options[@]}" update
  (cd "$zig" && apt-get "${options[@]}" source --download-only highway && tar xzf highway_*.orig.tar.gz)
  highway=$(echo "$zig"/highway-*/)
  for name in aligned_allocator per_target print targets; do
    "$zig/c++" -O2 -fPIC -std=c++17 -I"$highway" -c "$highway/hwy/$name.cc" -o "$zig/$name.o"
  done
  "$zig/ar" crs "$zig/libhwy.a" "$zig"/*.o
fi
build_wheel "$work/glibc" "$work/raw_glibc" "" -C "build-dir=$work/cmake_glibc" \
  -C "cmake.define.CMAKE_TOOLCHAIN_FILE=$PWD/cmake/zig.cmake" -C "cmake.define.highway_library=$zig/libhwy.a" \
  -C "cmake.define.highway_include=$(echo "$zig"/highway-*/)"
