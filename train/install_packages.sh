# Sourced by train/demo.sh and tests/run.sh: installs the Debian packages named as arguments, as far
# as they are missing; where there is no apt-get, says what is needed and goes on.
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
  fi
fi
