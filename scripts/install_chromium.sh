#!/bin/sh
# Chromium from the packages of Debian and its kin.
set -eu
if ! command -v apt-get >/dev/null; then
  echo "Install Chromium with the package manager of this system." >&2
  exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get -qq -o Acquire::Retries=3 update
$sudo apt-get -qq -o Acquire::Retries=3 install --no-install-recommends chromium >/dev/null
command -v chromium
