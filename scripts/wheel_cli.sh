#!/usr/bin/env bash
# Builds the wheel token-statistics-cli in build/python/dist: the program of build/release with the libraries and models that it needs.
# torch and OpenMP's runtime stay outside; the wheel requires the torch version of the build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/wheel_tools.sh
build=build/release
for file in tost lib/libtost_program.so lib/libtost_torch.so CMakeCache.txt; do
  [ -e "$build/$file" ] || { echo "There is no $build/$file; make builds it."; exit 1; }
done
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' python/tost/__init__.py)
torch=$(sed -n 's/^TOST_TORCH_VERSION:INTERNAL=\([0-9]*\.[0-9]*\).*/\1/p' "$build/CMakeCache.txt")
[ -n "$torch" ] || { echo "$build/CMakeCache.txt does not name the torch that the program was built with."; exit 1; }

stage=$work/cli
rm -rf "$stage" "$work/raw_cli" "$work"/dist/token_statistics_cli-*
cp -r python/cli "$stage"
cp LICENSE "$stage"
sed -i "s/@VERSION@/$version/g; s/@TORCH@/$torch/" "$stage/pyproject.toml"
package=$stage/tost_cli
printf '"""The torch that the program was built with."""\n\nTORCH = "%s"\n' "$torch" > "$package/_built.py"
cp "$build/tost" "$build"/lib/libtost_{program,torch}.so "$package"
cp -r models "$package"
# Shared libraries of the system go into the wheel, and their licences with them.
mkdir "$stage/licences"
for library in $(ldd "$package/tost" "$package"/*.so | awk '/=> \// { print $3 }' | sort -u | grep -v -e torch -e libc10 -e libgomp); do
  file=$(realpath "$library")
  name=$(dpkg -S "$file" 2>/dev/null || dpkg -S "${file#/usr}" 2>/dev/null) || { echo "No Debian package has $file, so its licence is not known."; exit 1; }
  cp "/usr/share/doc/${name%%:*}/copyright" "$stage/licences/${name%%:*}.txt"
done
cp /usr/share/doc/libjs-chart.js/copyright "$stage/licences/libjs-chart.js.txt"  # part of the pages
strip "$package/tost" "$package"/*.so
patchelf --force-rpath --set-rpath '$ORIGIN' "$package/tost"
# torch 2.11 and newer have their OpenMP runtime in one of these two folders.
patchelf --set-rpath '$ORIGIN:$ORIGIN/../torch/lib:$ORIGIN/../torch.libs' "$package"/*.so
python -m build -q --wheel --no-isolation --skip-dependency-check -o "$work/raw_cli" \
  -C "wheel.tags=py3-none-linux_$(uname -m)" "$stage"
python scripts/graft.py repair --exclude 'libtorch*' --exclude 'libc10*' --exclude 'libgomp*' -w "$work/dist" \
  "$work"/raw_cli/*.whl > "$work/auditwheel_cli.log" 2>&1 || { cat "$work/auditwheel_cli.log"; exit 1; }
ls -1s --block-size=KiB "$work"/dist/token_statistics_cli-*
