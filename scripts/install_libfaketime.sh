#!/bin/sh
# libfaketime from the packages of Debian and its kin: another clock for one process.
set -eu
if ! command -v apt-get >/dev/null; then
  echo "Install libfaketime with the package manager of this system." >&2
  exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get -qq -o Acquire::Retries=3 update
$sudo apt-get -qq -o Acquire::Retries=3 install --no-install-recommends libfaketime >/dev/null
ls /usr/lib/*/faketime/libfaketime.so.1
