# Sourced by the scripts that build: installs the Debian packages named as arguments, as far
# as they are missing; where there is no apt-get, says what is needed, for brew too, and goes on. Sets
# `jobs`, the number of processors.
jobs=$(nproc 2>/dev/null || sysctl -n hw.ncpu)

# Name in Homebrew of a Debian package; nothing for what macOS brings itself.
brew_name() {
  case "$1" in
    cmake | googletest) echo "$1" ;;
    libeigen3-dev) echo eigen@3 ;;
    libcxxopts-dev) echo cxxopts ;;
    nlohmann-json3-dev) echo nlohmann-json ;;
    librandom123-dev) echo random123 ;;
    libutfcpp-dev) echo utf8cpp ;;
    libssl-dev) echo openssl@3 ;;
    libgomp1) echo libomp ;;
    libdnnl-dev) echo onednn ;;
    libopenmpi-dev) echo open-mpi ;;
    libgtest-dev) echo googletest ;;
    nodejs) echo node ;;
  esac
}

missing=()
if command -v dpkg-query >/dev/null; then
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
else
  missing=("$@")
fi
if [ ${#missing[@]} -gt 0 ]; then
  if command -v apt-get >/dev/null; then
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
  else
    echo "Needed, under the names that Debian gives them: ${missing[*]}" >&2
    if command -v brew >/dev/null; then
      echo "With Homebrew: brew install $(for each in "${missing[@]}"; do brew_name "$each"; done | xargs)" >&2
    fi
  fi
fi
