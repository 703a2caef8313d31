#!/usr/bin/env bash
# Builds the fuzz targets with clang and runs one after the other.
#
# usage: fuzz/run.sh [SECONDS [TARGET...]]; targets are the archives in fuzz/corpus, by default all. Needs clang and its
# libclang-rt (Debian: clang libclang-rt-14-dev) and the libraries of the readers. Prints executions, coverage (edges,
# features) and the size of the corpus of each; ends with 1 where one has a finding, which then lies in build/fuzz.
# fuzz/run.sh --sources lists the files that all targets are made of.
# INPUT_SECONDS is the time one input may take, 20 by default; set more where others may stop the program for a while.
# New inputs go to build/fuzz/TARGET. fuzz/corpus.py adds useful ones to the archives, which the tests replay.
set -euo pipefail
cd "$(dirname "$0")/.."
flags=(-std=c++20 -O1 -g -I. -fsanitize=address,undefined -fno-sanitize-recover=undefined)
libraries=(-lz -lisal -ljpeg -lpng16 -lpcre2-8)
base=(tost/base/{file,file_calls,path,text,utf8,random}.cc tost/io/{parse_json,safe_text}.cc)

all_targets() {
  basename -s .zip fuzz/corpus/*.zip
}

sources_of() {
  case $1 in
    checkpoint) echo tost/io/crc.cc tost/engine/{manifest,metadata,precision,run_layout}.cc tost/train/{guards,loop_state}.cc ;;
    cifar) echo tost/io/picture_files.cc ;;
    idx) echo tost/io/picture_files.cc ;;
    image) echo tost/io/{image,jpeg,png}.cc ;;
    json) echo tost/engine/{config_json,metadata,precision}.cc tost/train/config_{field,form}.cc ;;
    model_config)
      echo tost/engine/{config_json,foreign_model,metadata,precision}.cc
      echo tost/kinds/vision/{foreign_config,presets}.cc
      echo tost/io/{pickle,torch,zip}_*.cc tost/io/crc.cc ;;
    request) echo tost/serve/fields.cc ;;
    safetensors) echo tost/io/{safetensors_header,safetensors_index,torch_dtype}.cc ;;
    sequences)
      echo tost/data/{listops,sequence_text}.cc
      echo tost/io/{array_datasets,folder_dataset,image,jpeg,picture_files,png}.cc ;;
    token_file) echo tost/io/token_file.cc ;;
    tokenizer) echo tost/io/base64.cc tost/io/bpe*.cc tost/io/tokenizer*.cc ;;
    torch_file)
      echo tost/io/{pickle,torch,zip}_*.cc tost/io/crc.cc ;;
    *) echo "no target '$1'; there are: $(all_targets | tr '\n' ' ')" >&2; exit 2 ;;
  esac
}

# All files of a target, a line each; none that needs torch or gtest.
files_of() {
  local source
  for source in "${base[@]}" $(sources_of "$1") "fuzz/targets/$1.cc"; do
    case $source in
      *_test.cc | tost/io/torch_tensors.cc) ;;
      *) echo "$source" ;;
    esac
  done
}

if [ "${1:-}" = --sources ]; then
  for target in $(all_targets); do files_of "$target"; done | sort -u
  exit
fi

seconds=${1:-600}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=($(all_targets))
out=build/fuzz
# Some targets write the files that they read: to memory where there is such a place.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
mkdir -p "$out/objects"

# Objects are shared by targets and kept between runs, each with the list of files it was made of.
compile() {
  local source=$1 object=build/fuzz/objects/${1//\//_}.o parts
  if [ -e "$object" ] && [ -e "$object.d" ]; then
    parts=$(sed 's/^[^:]*://; s/\\$//' "$object.d")
    # shellcheck disable=SC2086  # a list of paths without spaces
    [ -n "$(find $parts -newer "$object" -print -quit 2>&1)" ] || return 0
  fi
  clang++ "${@:2}" -fsanitize=fuzzer-no-link -MMD -MF "$object.d" -c "$source" -o "$object"
}
export -f compile

build() {
  local target=$1 source sources=() objects=()
  for source in $(files_of "$target"); do
    sources+=("$source")
    objects+=("$out/objects/${source//\//_}.o")
  done
  printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I SOURCE bash -c 'compile "$@"' bash SOURCE "${flags[@]}"
  clang++ "${flags[@]}" -fsanitize=fuzzer "-DTOST_FUZZ_TARGET=try_$target" fuzz/fuzz_main.cc "${objects[@]}" \
    "${libraries[@]}" -o "$out/${target}_fuzz"
}

status=0
for target in "${targets[@]}"; do
  build "$target"
  mkdir -p "$out/$target"
  rm -rf "$out/corpus/$target"
  python3 fuzz/corpus.py unpack "$target" "$out/corpus/$target"
  dictionary=()
  [ ! -e "fuzz/$target.dict" ] || dictionary=("-dict=fuzz/$target.dict")
  if ! "$out/${target}_fuzz" -max_total_time="$seconds" -max_len=8192 -timeout="${INPUT_SECONDS:-20}" -rss_limit_mb=2500 -print_final_stats=1 \
       -artifact_prefix="$out/$target-" "${dictionary[@]}" "$out/$target" "$out/corpus/$target" \
       2> "$out/$target.log"; then
    status=1
    tail -n 40 "$out/$target.log" >&2
  fi
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$target.log")
  coverage=$(grep -o 'cov: .* corp: [^ ]*' "$out/$target.log" | tail -n 1)
  echo "$target: ${executions:-no} executions, ${coverage:-no coverage}"
done
exit $status
