#!/usr/bin/env bash
# Runs python/tests/kits against the real packages, in the environment that scripts/test_python.sh made: test_kits.sh VENV
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
"$venv/bin/pip" install -q --disable-pip-version-check timm==1.0.31 transformers==5.23.0 accelerate==1.15.0 peft==0.21.2 \
  ultralytics==8.4.190 onnxslim==0.1.98 segmentation-models-pytorch==0.6.0 neuralforecast==3.3.0
"$venv/bin/pytest" -q -rs -p no:cacheprovider -W ignore -c python/pyproject.toml --rootdir python python/tests/kits
