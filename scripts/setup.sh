#!/usr/bin/env bash
# Everything the build needs: Debian packages, and a torch in .venv unless the user has one.
#   TOST_SMALL=1      only what the small program needs: no torch, no Python packages
#   TOST_TORCH=PATH   use this torch (a torch package folder, or a python that has torch)
# Does nothing, quickly, when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

torch_version=2.15.0
test_modules=(numpy==2.4.6 pillow==13.0.0 tensorboard==2.21.0 expecttest==0.3.0 pytest==9.2.0
              onnx==1.23.2 onnxruntime==1.32.0 safetensors==0.8.0)
packages=(g++ make cmake ninja-build ccache git python3 python3-venv libhwy-dev libcli11-dev nlohmann-json3-dev
          libjpeg62-turbo-dev libpng-dev zlib1g-dev libisal-dev libpcre2-dev pkg-config libgtest-dev libboost1.81-dev libjs-chart.js)
. scripts/debian.sh

install_system_packages() {
  if command -v dpkg-query > /dev/null; then
    install_packages "${packages[@]}"
    return
  fi
  local program
  for program in c++ cmake ninja python3; do
    command -v $program > /dev/null || { say "This is not a Debian or Ubuntu system: install the counterparts of: ${packages[*]}"; exit 1; }
  done
}

has_torch() {  # a python that has torch 2.11 or newer
  "$1" - <<'PY' 2>/dev/null
import importlib.util, os, re, sys
spec = importlib.util.find_spec("torch")
text = open(os.path.join(os.path.dirname(spec.origin), "version.py")).read()
found = re.search(r"__version__ = '(\d+)\.(\d+)", text)
sys.exit(0 if tuple(map(int, found.groups())) >= (2, 11) else 1)
PY
}

install_torch() {
  if [ -n "${TOST_TORCH:-}" ]; then
    say "using the torch given by TOST_TORCH: $TOST_TORCH"
    return
  fi
  if has_torch python3; then
    say "using the torch of $(command -v python3)"
    return
  fi
  local wanted; wanted=".venv/.tost-$(echo "$torch_version ${test_modules[*]}" | cksum | cut -d" " -f1)"
  [ -e "$wanted" ] && return
  say "installing torch $torch_version into .venv (about 600 MB to download, 6 GB on disk, one to three minutes)"
  [ -x .venv/bin/python ] || python3 -m venv .venv
  .venv/bin/python -m pip install -q --disable-pip-version-check "torch==$torch_version" "${test_modules[@]}"
  touch "$wanted"
}

install_system_packages
[ -n "${TOST_SMALL:-}" ] || install_torch
