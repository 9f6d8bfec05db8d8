#!/bin/sh
# Install one package of Debian and its kin, which some tests need: install_package.sh NAME
set -eu
if ! command -v apt-get >/dev/null; then
  echo "Install $1 with the package manager of this system." >&2
  exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get -qq -o Acquire::Retries=3 update
$sudo apt-get -qq -o Acquire::Retries=3 install --no-install-recommends "$1" >/dev/null
