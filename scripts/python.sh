#!/usr/bin/env bash
# python.sh [REQUIREMENTS]: prints the path of a Python that has the packages of REQUIREMENTS, by default those of
# tests/python/requirements.txt. It is made once, outside the checkout, and made again when the requirements change.
# Where one package has a hash, all need one. Needs what `scripts/setup.sh test` installs.
set -euo pipefail

die() { echo "python.sh: $*" >&2; exit 1; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
requirements=${1:-$here/tests/python/requirements.txt}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/slipstream-async
home=$cache/python-$(sha256sum "$requirements" | cut -c1-12)

command -v python3 >/dev/null || die "there is no python3; scripts/setup.sh test installs it"
mkdir -p "$cache"
# Tests of several processes may ask at the same time.
exec 9>"$home.lock"
flock 9
if [[ ! -e $home/complete ]]; then
  rm -rf "$home"
  python3 -m venv "$home" >&2 || die "python3 cannot make an environment; scripts/setup.sh test installs python3-venv"
  "$home/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    -r "$requirements" >&2 || die "the packages of $requirements could not be installed"
  touch "$home/complete"
fi
echo "$home/bin/python"
