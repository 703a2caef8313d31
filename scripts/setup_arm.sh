#!/usr/bin/env bash
# What `make test-arm` needs: Debian's cross compiler and qemu, and Arm's libraries in build/arm-root.
# Does nothing, quickly, when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(g++-aarch64-linux-gnu qemu-user)
root=build/arm-root
libraries=(libhwy1 libhwy-dev libgtest-dev libgmock-dev libjpeg62-turbo libjpeg62-turbo-dev libpng16-16 libpng-dev zlib1g zlib1g-dev
           libpcre2-8-0 libpcre2-16-0 libpcre2-32-0 libpcre2-posix3 libpcre2-dev libisal2 libisal-dev nlohmann-json3-dev
           libcli11-dev)
. scripts/debian.sh

if ! command -v apt-get >/dev/null; then
  say "This is not a Debian or Ubuntu system: the cross compiler and Arm's libraries are taken from there."
  exit 1
fi
{ command -v aarch64-linux-gnu-g++ && command -v qemu-aarch64; } > /dev/null || install_packages "${packages[@]}"
[ "$(cat $root/.complete 2> /dev/null)" = "${libraries[*]}" ] && exit 0

# Package lists of their own: this system stays without packages of a second architecture.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/debs" $root
apart "$work"
options+=(-o APT::Architecture=arm64 -o APT::Architectures=arm64)
say "fetching Arm's libraries into $root"
apt-get "${options[@]}" update
(cd "$work/debs" && apt-get "${options[@]}" download "${libraries[@]}")
for package in "$work"/debs/*.deb; do dpkg -x "$package" $root; done
ln -sfn /usr/include/boost $root/usr/include/boost  # headers alone, the same for every machine
echo "${libraries[*]}" > $root/.complete
