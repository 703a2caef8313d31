#!/usr/bin/env bash
# What `make test-windows` needs: Debian's mingw-w64 and wine, and in build/windows-root the libraries, built from Debian's
# sources. Does nothing, quickly, when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(g++-mingw-w64-x86-64-posix libz-mingw-w64-dev wine64 nasm dpkg-dev libgtest-dev)
sources=(highway libpng1.6 libjpeg-turbo pcre2 libisal)
headers=(nlohmann-json3-dev libcli11-dev)
root=$PWD/build/windows-root
. scripts/debian.sh

if ! command -v apt-get > /dev/null; then
  say "This is not a Debian or Ubuntu system: the cross compiler, wine and the libraries' sources are taken from there."
  exit 1
fi
install_packages "${packages[@]}"
[ "$(cat "$root/.complete" 2> /dev/null)" = "${sources[*]}" ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/src" "$root"/{include,lib/pkgconfig}
apart_for_sources "$work"
say "building the libraries for Windows into $root: two minutes"
cd "$work/src"
apt-get "${options[@]}" update
apt-get "${options[@]}" source "${sources[@]}" > /dev/null
apt-get -qq download "${headers[@]}"
for package in ./*.deb; do dpkg -x "$package" "$root"; done
ln -sfn /usr/include/boost "$root/include/boost"  # headers alone, the same for every system

# build FOLDER OPTION...: builds and installs a library that is configured by CMake.
build() {
  cmake -S "$1" -B "build/$(basename "$1")" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$root" \
    -DCMAKE_TOOLCHAIN_FILE="$OLDPWD/cmake/windows.cmake" -DBUILD_SHARED_LIBS=OFF "${@:2}" > log 2>&1 &&
    ninja -C "build/$(basename "$1")" install >> log 2>&1 || { tail -20 log; exit 1; }
}
build highway-* -DHWY_ENABLE_EXAMPLES=OFF -DHWY_ENABLE_CONTRIB=OFF -DBUILD_TESTING=OFF
build /usr/src/googletest
build libpng1.6-* -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_EXECUTABLES=OFF
build libjpeg-turbo-* -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF
build pcre2-* -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF -DPCRE2_SUPPORT_JIT=ON
# Of the last, which has no CMake, the checksums alone.
cd libisal-*
make -f Makefile.unx arch=mingw host_cpu=x86_64 units=crc AS=nasm STRIP=true lib > ../log 2>&1 || { tail -20 ../log; exit 1; }
cp bin/isa-l.a "$root/lib/libisal.a"
cp -r include "$root/include/isa-l"
printf 'Name: libisal\nDescription: checksums\nVersion: 2\nLibs: -L%s -lisal\nCflags: -I%s\n' "$root/lib" "$root/include" \
  > "$root/lib/pkgconfig/libisal.pc"
echo "${sources[*]}" > "$root/.complete"
