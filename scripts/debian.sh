# Sourced by scripts that take something from Debian or Ubuntu: packages of the system, and apt-get with lists of its own.

say() { printf '[setup] %s\n' "$*"; }

# install_packages NAME...: installs those that are missing as root; else prints the command to run, and ends.
install_packages() {
  local name missing=()
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2> /dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} = 0 ] && return
  if [ "$(id -u)" != 0 ]; then
    say "Some system packages are missing. Run this, then make again:"
    printf '  sudo apt-get install -y --no-install-recommends %s\n' "${missing[*]}"
    exit 1
  fi
  say "installing system packages: ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
}

# apart FOLDER: sets `options` of an apt-get whose lists are in the folder, so that this system's stay as they are.
apart() {
  mkdir -p "$1"/{state/lists/partial,cache/archives/partial}
  options=(-qq -o Dir::State="$1/state" -o Dir::State::status=/dev/null -o Dir::Cache="$1/cache" -o APT::Sandbox::User=root)
}

# apart_for_sources FOLDER: the same for source packages, of the mirror that this machine has set.
apart_for_sources() {
  local release mirror
  apart "$1"
  release=$(. /etc/os-release; echo "$VERSION_CODENAME")
  mirror=$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Component: main" "Codename: $release" | head -1)
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" > "$1/list"
  options+=(-o Dir::Etc::sourcelist="$1/list" -o Dir::Etc::sourceparts=/dev/null)
}
