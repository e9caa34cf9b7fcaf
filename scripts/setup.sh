#!/usr/bin/env bash
# Installs what is missing on Debian or Ubuntu, and nothing else; says nothing when all is there.
#
#   scripts/setup.sh [build] [kafka] [test] [peers]
#
# build  a C and C++ compiler, headers, libclang (for bindgen) and Rust: the library with its default features
# kafka  a Java runtime and Maven, for scripts/kafka.sh
# test   Python 3 that can make environments, OpenSSL's headers and the linters rustfmt and clippy
# peers  Java with its compiler and Maven, for scripts/peers.sh
#
# Without words: build. Not root: through sudo if there is one; otherwise it prints the command to run.
set -euo pipefail

readonly RUST_MINOR=95 # rust-version of Cargo.toml is 1.$RUST_MINOR
readonly JAVA_MAJOR=17

say() { echo "setup.sh: $*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
any_file() { compgen -G "$1" >/dev/null; }

# ---- what is missing: asked of the machine, not of the package list, so that other ways to install count too -----

MISSING=()
need() { # package, then a command that succeeds if it is not needed
  "${@:2}" || MISSING+=("$1")
}

have_compilers() { have cc && have c++ && have make; }
# The library that bindgen loads, which libclang-cpp is not, and the headers that come with it.
have_libclang() {
  [[ -n ${LIBCLANG_PATH:-} ]] && return
  any_file '/usr/lib/llvm-*/lib/libclang[.-][s0-9]*' && any_file '/usr/lib/llvm-*/lib/clang/*/include/stddef.h'
}
have_header() { [[ -e /usr/include/$1 ]] || any_file "/usr/include/*/$1"; }
have_certificates() { [[ -s /etc/ssl/certs/ca-certificates.crt ]]; }
have_java() {
  local version
  version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p;q')
  [[ -n $version ]] && ((version >= JAVA_MAJOR))
}
have_java_compiler() { have_java && have javac; }

need_build() {
  need build-essential have_compilers
  need pkg-config have pkg-config
  need libclang-dev have_libclang
  need zlib1g-dev have_header zlib.h
  need curl have curl
  need ca-certificates have_certificates
}

need_kafka() {
  need default-jre-headless have_java
  need maven have mvn
}

need_peers() {
  need default-jdk-headless have_java_compiler
  need maven have mvn
}

# Debian's python3 has the module venv, but not what it installs pip with.
have_python_environments() { python3 -c 'import ensurepip, venv' >/dev/null 2>&1; }

need_test() {
  need python3 have python3
  need python3-venv have_python_environments
  need libssl-dev have_header openssl/ssl.h
}

# ---- installing --------------------------------------------------------------------------------------------------

# Fills AS_ROOT with what has to stand before a command for it to run as root.
AS_ROOT=()
become_root() {
  [[ $(id -u) == 0 ]] && return
  have sudo || die "not root, and there is no sudo. Run as root: apt-get update && apt-get install -y ${MISSING[*]}"
  sudo -v || die "sudo refused. Run as root: apt-get update && apt-get install -y ${MISSING[*]}"
  AS_ROOT=(sudo)
}

# Debian's lists and logs are long; they are shown only if something fails.
quietly() {
  local log
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || { cat "$log" >&2; rm -f "$log"; return 1; }
  rm -f "$log"
}

install_missing() {
  ((${#MISSING[@]} > 0)) || return 0
  have apt-get || die "this machine has no apt-get. Install the counterparts of: ${MISSING[*]}"
  become_root
  say "installing ${MISSING[*]}"
  quietly "${AS_ROOT[@]}" apt-get update || die "the package lists could not be read"
  quietly "${AS_ROOT[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${MISSING[@]}" ||
    die "not installed: ${MISSING[*]}"
}

have_rust() {
  local minor
  minor=$(cargo --version 2>/dev/null | sed -n 's/^cargo 1\.\([0-9]*\)\..*/\1/p')
  [[ -n $minor ]] && ((minor >= RUST_MINOR))
}

# Debian 12 has Rust 1.63 and no rustup, so the toolchain comes from rustup's own installer. A machine that has rustup
# (Debian 13 can install it) only gets a newer toolchain.
install_rust() {
  export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
  have_rust && return
  if have rustup; then
    say "updating Rust"
    quietly rustup toolchain install stable --profile minimal && quietly rustup default stable
  else
    say "installing Rust with rustup"
    local installer
    installer=$(mktemp)
    curl --proto '=https' --tlsv1.2 -fsSL https://sh.rustup.rs -o "$installer" ||
      die "rustup's installer could not be fetched; install Rust 1.$RUST_MINOR or newer by hand"
    quietly sh "$installer" -y --profile minimal --component rustfmt,clippy || die "rustup's installer failed"
    rm -f "$installer"
  fi
  have_rust || die "Rust 1.$RUST_MINOR or newer is needed; this is $(cargo --version 2>&1 || echo 'no cargo at all')"
}

install_linters() {
  cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return
  have rustup || die "rustfmt or clippy is missing, and there is no rustup to add them"
  say "adding rustfmt and clippy"
  quietly rustup component add rustfmt clippy
}

main() {
  local part
  (($# > 0)) || set -- build
  for part in "$@"; do
    case $part in
      build | kafka | test | peers) "need_$part" ;;
      *) die "unknown part '$part': build, kafka, test, peers" ;;
    esac
  done
  install_missing
  for part in "$@"; do
    case $part in
      build) install_rust ;;
      test) install_linters ;;
    esac
  done
}

main "$@"
