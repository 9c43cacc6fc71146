#!/usr/bin/env bash
# Prints a folder whose `node` is Node 24 with a C library that the HTTP engine's build for it can load (glibc 2.38 or
# later). Where this system has no such Node, one is put together in a cache folder, of packages from npm and Debian.
# Usage: PATH="$(tools/node24.sh):$PATH" npm test
set -euo pipefail

least_glibc=2.38
source "$(dirname "$0")/versions.sh"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/node24

say() { echo "node24: $*" >&2; }
fail() { say "$*"; exit 1; }

has_glibc() { [ "$(printf '%s\n' "$least_glibc" "$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)" | sort -V | head -n 1)" = "$least_glibc" ]; }
is_node24() { case "$("$1" --version 2> /dev/null)" in v24.*) true ;; *) false ;; esac }

if has_glibc && is_node24 node; then
  dirname "$(command -v node)"
  exit
fi
if is_node24 "$cache/bin/node"; then
  echo "$cache/bin"
  exit
fi

[ "$(uname -s)" = Linux ] || fail 'only for Linux: install Node 24 and put it first in PATH'
case "$(uname -m)" in
  x86_64) arch=x64 debian=x86_64-linux-gnu loader=ld-linux-x86-64.so.2 ;;
  aarch64) arch=arm64 debian=aarch64-linux-gnu loader=ld-linux-aarch64.so.1 ;;
  *) fail "no package of Node 24 for $(uname -m)" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
say "fetching Node 24 for $arch"
npm pack --silent "node-linux-$arch@$NODE24" > /dev/null
tar xzf "node-linux-$arch-$NODE24.tgz"
mkdir -p tree/bin
mv package/bin/node tree/bin/node

if ! has_glibc; then
  # The libraries of Debian 13 lie beside the program, which alone is told of them. The system stays as it is.
  sources=/etc/apt/sources.list.d/debian.sources
  [ -r "$sources" ] || fail "this system's glibc is older than $least_glibc, and $sources is missing: use Debian 13 or Ubuntu 24.04"
  if ! command -v patchelf > /dev/null; then
    [ "$(id -u)" = 0 ] || fail 'needs patchelf: apt-get install patchelf'
    say 'apt-get install patchelf'
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends patchelf; } > apt.log 2>&1 || { cat apt.log >&2; exit 1; }
  fi
  mkdir -p lists/partial cache/archives/partial tree/libraries
  sed 's/bookworm/trixie/g; s/bullseye/trixie/g' "$sources" > trixie.sources
  apt() {
    apt-get -qq -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o "Dir::Etc::sourcelist=$work/trixie.sources" \
      -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root "$@" > apt.log 2>&1 || { cat apt.log >&2; exit 1; }
  }
  say 'fetching the libraries of Debian 13'
  apt update
  apt download libc6 libstdc++6 libgcc-s1 zlib1g
  for package in ./*.deb; do dpkg-deb -x "$package" tree/libraries; done
  # Where the libraries will lie once all is in place.
  patchelf --set-interpreter "$cache/libraries/usr/lib/$debian/$loader" --set-rpath "$cache/libraries/usr/lib/$debian" tree/bin/node
fi

mkdir -p "$(dirname "$cache")"
rm -rf "$cache"
mv tree "$cache"
is_node24 "$cache/bin/node" || fail 'the program that was put together does not run'
echo "$cache/bin"
