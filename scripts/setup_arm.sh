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

say() { printf '[setup] %s\n' "$*"; }

if ! command -v apt-get >/dev/null; then
  say "This is not a Debian or Ubuntu system: the cross compiler and Arm's libraries are taken from there."
  exit 1
fi
if ! { command -v aarch64-linux-gnu-g++ && command -v qemu-aarch64; } >/dev/null; then
  if [ "$(id -u)" != 0 ]; then
    say "Run this, then make again:"
    printf '  sudo apt-get install -y --no-install-recommends %s\n' "${packages[*]}"
    exit 1
  fi
  say "installing system packages: ${packages[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi
[ "$(cat $root/.complete 2> /dev/null)" = "${libraries[*]}" ] && exit 0

# Package lists of their own: this system stays without packages of a second architecture.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work"/{state/lists/partial,cache/archives/partial,debs} $root
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root -o Dir::State="$work/state"
         -o Dir::State::status=/dev/null -o Dir::Cache="$work/cache")
say "fetching Arm's libraries into $root"
apt-get "${options[@]}" update
(cd "$work/debs" && apt-get "${options[@]}" download "${libraries[@]}")
for package in "$work"/debs/*.deb; do dpkg -x "$package" $root; done
ln -sfn /usr/include/boost $root/usr/include/boost  # headers alone, the same for every machine
echo "${libraries[*]}" > $root/.complete
