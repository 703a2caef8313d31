#!/usr/bin/env bash
# Times official-formula PyTorch, torch.compile, ONNX Runtime, OpenVINO and this program on the same
# weights and inputs. Arguments go to peers.py (`run.sh --help`).
#   PEERS_VENV=DIR      the virtual environment (default build/peers), made where it is missing
#   PEERS_AVX2=1        as on a processor with AVX2 alone: hides AVX-512 and AMX from every contestant (Intel)
#   PEERS_PYTHON=PYTHON a python that has torch, so that it is not downloaded again; default: that of
#   TOST_TORCH          (a torch package folder, or a python that has torch), else .venv, else none
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=${PEERS_VENV:-$root/build/peers}

packages_of() { "$1" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' 2>/dev/null; }

torch_packages() {  # the folder that holds an existing torch, or nothing
  if [ -n "${PEERS_PYTHON:-}" ]; then
    packages_of "$PEERS_PYTHON" || { echo "run.sh: $PEERS_PYTHON has no torch." >&2; exit 2; }
  elif [ -n "${TOST_TORCH:-}" ]; then
    if [ -d "$TOST_TORCH" ]; then (cd "$TOST_TORCH/.." && pwd); else packages_of "$TOST_TORCH"; fi
  elif [ -x "$root/.venv/bin/python" ]; then
    packages_of "$root/.venv/bin/python" || true
  fi
}

if ! [ -x "$venv/bin/python" ]; then
  packages=$(torch_packages)
  python=${PEERS_PYTHON:-python3}
  [ -z "$packages" ] || [ -n "${PEERS_PYTHON:-}" ] || ! [ -x "$root/.venv/bin/python" ] || python=$root/.venv/bin/python
  "$python" -m venv "$venv"
  own=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  # Read after this environment's own packages, which therefore come first.
  if [ -n "$packages" ]; then echo "$packages" >"$own/zz_torch.pth"; else "$venv/bin/pip" install -q torch==2.15.0; fi
fi
# Where a package cannot be had, its contestants are reported as not measured.
if ! cmp -s "$root/bench/peers/requirements.txt" "$venv/requirements.done"; then
  if "$venv/bin/pip" install -q -r "$root/bench/peers/requirements.txt"; then
    cp "$root/bench/peers/requirements.txt" "$venv/requirements.done"
  else
    echo "run.sh: not every peer could be installed; those that are missing are left out." >&2
  fi
fi
if [ "${PEERS_AVX2:-0}" = 1 ]; then
  cc -O1 -shared -fPIC -o "$venv/avx2_only.so" "$root/bench/peers/avx2_only.c"
  export LD_PRELOAD=$venv/avx2_only.so
fi
exec "$venv/bin/python" "$root/bench/peers/peers.py" "$@"
