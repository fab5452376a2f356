#!/usr/bin/env bash
# Installs the Debian packages that a task needs. Fast when nothing is missing (one dpkg-query).
#   scripts/install_dependencies.sh [--print] [SET...]     SET: build (default) test check sanitizer arm bench all
# Debian 12 is the lowest system supported, Ubuntu 24.04 the newest tested by name.
# As root or with sudo it installs; otherwise it prints the one command to run and exits 1.
set -euo pipefail

usage() { sed -n '2,5s/^# \{0,1\}//p' "$0"; }

id=unknown
version=unknown
if [ -r /etc/os-release ]; then
  id=$(. /etc/os-release && echo "${ID:-unknown}")
  version=$(. /etc/os-release && echo "${VERSION_ID:-unknown}")
fi

# Debian 12's unversioned Boost is 1.74, older than what Beast code here needs (1.81).
case "$id-$version" in
  debian-12*) boost=libboost1.81-dev ;;
  ubuntu-24.04*) boost=libboost1.83-dev ;;
  *) boost=libboost-dev ;;
esac

build_set="g++ cmake ninja-build ccache pkg-config git ca-certificates $boost libssl-dev
  nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev libpcre2-dev libutf8proc-dev libxxhash-dev libhwloc-dev
  libnuma-dev prometheus-cpp-dev libgtest-dev libgmock-dev"
test_set="$build_set python3 python3-venv curl"
check_set="$build_set python3 clang-format-19 clang-tidy-19"
sanitizer_set="$test_set clang-19 libclang-rt-19-dev"
arm_set="$build_set g++-aarch64-linux-gnu qemu-user-static"
bench_set="$build_set libbenchmark-dev"

print_only=no
wanted=""
for argument in "$@"; do
  case "$argument" in
    --print) print_only=yes ;;
    -h | --help) usage; exit 0 ;;
    build) wanted+=" $build_set" ;;
    test) wanted+=" $test_set" ;;
    check) wanted+=" $check_set" ;;
    sanitizer) wanted+=" $sanitizer_set" ;;
    arm) wanted+=" $arm_set" ;;
    bench) wanted+=" $bench_set" ;;
    all) wanted+=" $test_set $check_set $sanitizer_set $arm_set $bench_set" ;;
    *) echo "install_dependencies: unknown set '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done
[ -n "$wanted" ] || wanted=$build_set
packages=$(tr -s ' \n' '\n\n' <<<"$wanted" | sed '/^$/d' | sort -u)

if [ "$print_only" = yes ]; then
  echo $packages
  exit 0
fi
if [ "${TANDEM_SKIP_INSTALL:-0}" = 1 ]; then
  exit 0
fi
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install_dependencies: no apt on this system. It needs what these Debian packages hold:" >&2
  echo $packages >&2
  echo "install_dependencies: going on; CMake names what is missing." >&2
  exit 0
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $packages 2>/dev/null |
  sed -n 's/^installed //p' | sort -u || true)
missing=$(comm -23 <(echo "$packages") <(echo "$installed"))
[ -n "$missing" ] || exit 0

case "$id-$version" in
  debian-12* | ubuntu-24.04*) ;;
  *) echo "install_dependencies: $id $version is not a tested system; trying Debian 12's package names." >&2 ;;
esac

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  # With a terminal, sudo may ask for a password; without one it must not.
  if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root=(sudo)
  else
    echo "These packages are missing and this user may not install them. Run, then try again:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends" $missing >&2
    exit 1
  fi
fi

echo "Installing:" $missing
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3
     -o DPkg::Lock::Timeout=300)
"${apt[@]}" update
# clang's version 19 is not in every release; without it formatting, lint and sanitizers are missing, not the build.
optional='^(clang-(format-|tidy-)?|libclang-rt-)19(-dev)?$'
for package in $(grep -E "$optional" <<<"$missing" || true); do
  if [ -z "$(apt-cache madison "$package" 2>/dev/null)" ]; then
    echo "install_dependencies: $package is not to be had here; checks that need it will say so." >&2
    missing=$(grep -vx "$package" <<<"$missing" || true)
  fi
done
[ -n "$missing" ] || exit 0
"${apt[@]}" install -y --no-install-recommends $missing
