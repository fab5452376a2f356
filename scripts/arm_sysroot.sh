#!/usr/bin/env bash
# Fills build/arm64-sysroot with Debian's arm64 libraries. They are downloaded and unpacked, never installed: the
# system's own packages and its list of architectures stay as they are. Needs no root.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/arm64-sysroot
packages="libfmt-dev libfmt9 libspdlog-dev libspdlog1.10 libhwloc-dev libhwloc15 libnuma-dev libnuma1 libudev1
  libltdl7 libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2 libssl-dev libssl3 prometheus-cpp-dev
  libprometheus-cpp-core1.0 libgtest-dev libgmock-dev"
stamp=$root/packages.sha256
wanted=$(sha256sum <<<"$packages")
[ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || exit 0
if ! grep -q '^ID=debian' /etc/os-release || ! grep -q '^VERSION_ID="12' /etc/os-release; then
  echo "arm_sysroot: made for Debian 12 (package names, one archive for all architectures)" >&2
  exit 1
fi
rm -rf "$root"
mkdir -p "$root/.apt/lists/partial" "$root/.apt/archives/partial"
# A package manager of its own, beside the system's: own lists, own status, architecture arm64.
apt=(apt-get -q -o Dir::State="$root/.apt" -o Dir::State::status=/dev/null -o Dir::Cache="$root/.apt"
     -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Acquire::Retries=3 -o Acquire::Languages=none
     -o APT::Sandbox::User=root)
"${apt[@]}" update
(cd "$root/.apt/archives" && "${apt[@]}" download $packages)
for archive in "$root"/.apt/archives/*.deb; do dpkg -x "$archive" "$root"; done
rm -rf "$root/.apt"
echo "$wanted" >"$stamp"
