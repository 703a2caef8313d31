#!/usr/bin/env bash
# Installs the wheel of scripts/wheel.sh and a torch into a fresh environment, and runs python/tests there.
#   TORCH_VERSION=2.11.0   that torch; the one of .venv unless set
#   MODELS=1               timm and transformers too, for the tests of tost.vision and tost.hf, and their own tests of models
#   KITS=1                 timm, ultralytics, transformers and others too, for the tests of what plugs into them
set -euo pipefail
cd "$(dirname "$0")/.."

version=${TORCH_VERSION:-}
if [ -z "$version" ]; then
  [ -x .venv/bin/python ] || { echo "There is no .venv to take the version of torch from; set TORCH_VERSION, as in TORCH_VERSION=2.15.0."; exit 1; }
  version=$(.venv/bin/python -c "from importlib.metadata import version; print(version('torch').split('+')[0])")
fi
venv=$PWD/build/python/venv
rm -rf "$venv"
python3 -m venv "$venv"
libraries=(timm==1.0.31 transformers==5.23.0)
models=()
[ -z "${MODELS:-}" ] || models=("${libraries[@]}" parameterized==0.9.0)
"$venv/bin/pip" install -q --disable-pip-version-check "torch==$version" numpy==2.4.6 expecttest==0.3.0 pytest==9.2.0 \
  onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 openvino==2026.4.1 "${models[@]}" build/python/dist/token_statistics-*-cp*.whl
# The C++ library is of use to the tests where it was built for the same torch.
built=$(sed -n 's/^TOST_TORCH_VERSION:INTERNAL=//p' build/release/CMakeCache.txt 2>/dev/null || true)
if [ "$built" = "$version" ] && [ -e build/release/lib/libtost_torch.so ]; then
  export TOST_LIBRARY=$PWD/build/release/lib/libtost_torch.so
fi
sources=$PWD/build/python/sources
if [ -n "${MODELS:-}" ]; then  # both libraries have their tests in their source distributions
  rm -rf "$sources"
  "$venv/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary timm,transformers -d "$sources" "${libraries[@]}"
  for file in "$sources"/*.tar.gz; do tar xzf "$file" -C "$sources"; done
  export TOST_TRANSFORMERS_TESTS=$sources/transformers-5.23.0/tests
fi
echo "torch $version"
"$venv/bin/pytest" -q -rs -p no:cacheprovider -c python/pyproject.toml --rootdir python python/tests
[ -z "${KITS:-}" ] || scripts/test_kits.sh "$venv"
[ -n "${MODELS:-}" ] || exit 0
echo "timm's own tests"
cd "$sources/timm-1.0.31"
# Its lists name the models that are transformers, and the modules whose models give features of every block.
sed -i "s/^NON_STD_FILTERS = \[/&'tost_*', /; s/^FEAT_INTER_FILTERS = \[/&'vision', /" tests/test_models.py
"$venv/bin/pytest" -q -p no:cacheprovider -p tost.vision -W ignore tests/test_models.py \
  -k "(tost_nano or tost_micro or tost_cab_tiny_12_p16) and not torchscript"
