#!/usr/bin/env bash
# Builds the fuzz target of the readers of torch files with clang and runs it.
#
# usage: fuzz/run.sh [SECONDS]; needs clang, its libclang-rt (Debian: clang libclang-rt-14-dev) and zlib.
# New inputs go to build/fuzz/corpus; those worth keeping belong into tost/io/corpus/torch, which the tests replay.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
out=build/fuzz
mkdir -p "$out/corpus"
rm -f "$out"/*.o
flags=(-std=c++20 -O1 -g -I. -fsanitize=address,undefined -fno-sanitize-recover=undefined)
sources=(tost/base/text.cc tost/base/utf8.cc tost/io/mapped_file.cc tost/io/safe_text.cc tost/io/safetensors_header.cc
         tost/io/safetensors_sax.cc tost/io/zip_{archive,crc32,directory}.cc
         tost/io/pickle_{machine,reader,scan,tree}.cc
         tost/io/torch_{calls,dtype,element,file,inspect,legacy,model,names,numpy,outline,rebuild,stats,storage,strings,value,zip}.cc)
printf '%s\n' "${sources[@]}" fuzz/torch_file_fuzz.cc | xargs -P "$(nproc)" -I SOURCE \
  sh -c 'clang++ "$@" -c SOURCE -o "'$out'/$(basename SOURCE .cc).o"' sh "${flags[@]}" -fsanitize=fuzzer-no-link
clang++ "${flags[@]}" -fsanitize=fuzzer "$out"/*.o -lz -o "$out/torch_file_fuzz"
"$out/torch_file_fuzz" -max_total_time="$seconds" -max_len=8192 -timeout=20 -rss_limit_mb=2500 \
  -artifact_prefix="$out/" -dict=fuzz/torch_file.dict "$out/corpus" tost/io/corpus/torch
