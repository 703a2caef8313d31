#!/usr/bin/env bash
# Builds build/web/try: one static folder in which the shipped models run in a browser tab, without a server.
# Needs emscripten (Debian: emscripten) and the headers of libhwy-dev and nlohmann-json3-dev.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v em++ > /dev/null || { echo "em++ is missing: apt-get install -y --no-install-recommends emscripten"; exit 1; }
out=build/web/try objects=build/web/objects
mkdir -p $out $objects/include
for library in hwy nlohmann; do ln -sfn /usr/include/$library $objects/include/$library; done

engine=(array arrays_file config_json delta_mix generate group_means language_config language_engine language_file
        language_prefill language_state language_step language_weights metadata mixer_names precision packed_linear predict quantized_weight sampling softmax_mix
        text_trace text_writer threads tost vision_config vision_engine vision_file vision_mixers vision_tokens vision_weights weight_source)
io=(image parse_json preprocess safe_text safetensors_header safetensors_index tokenizer tokenizer_chars
    tokenizer_words torch_dtype)
base=(file file_calls path random text utf8)
kernels=(attend_rows block_cache delta isa means row_ops schedule tssa tssa_causal products/few_rows
         products/tile_rows products/wide_rows)
sources=("${engine[@]/#/tost/engine/}" "${io[@]/#/tost/io/}" "${base[@]/#/tost/base/}" "${kernels[@]/#/tost/kernels/}" web/try/entry)
flags=(-O3 -DNDEBUG -std=c++20 -fno-math-errno -msimd128 -fexceptions -include web/try/shim.h -I$objects/include -I. -Wno-unknown-pragmas)

compile() {  # SOURCE: unless its object is newer than every header
  local object=$objects/${1//\//_}.o
  [ "$object" -nt "$1.cc" ] && [ -z "$(find tost web/try -name '*.h' -newer "$object" -print -quit)" ] && return
  echo "[try] $1.cc"
  em++ "${flags[@]}" -c "$1.cc" -o "$object"
}
export NODE_PATH=${NODE_PATH:-/usr/share/nodejs}  # where Debian keeps what emscripten runs
linked=()  # not every object of the folder: a source may be gone
for source in "${sources[@]}"; do
  compile "$source"
  linked+=("$objects/${source//\//_}.o")
done
functions=$(printf '"_%s",' tost_error tost_open_bytes tost_about tost_begin tost_copy tost_end tost_write malloc free)
em++ -O3 -msimd128 -fexceptions -sALLOW_MEMORY_GROWTH=1 -sENVIRONMENT=web,node -sMODULARIZE=1 -sEXPORT_NAME=TostEngine \
  -sEXPORTED_FUNCTIONS="[${functions%,}]" -sEXPORTED_RUNTIME_METHODS='["ccall"]' "${linked[@]}" -o $out/tost.js
cp web/kit.css web/kit.js web/samples.js web/try/index.html web/try/try.js models/*.safetensors $out/
du -ch $out/* | tail -1 | sed 's/total/in build\/web\/try: serve it by `python3 -m http.server -d build\/web\/try`/'
