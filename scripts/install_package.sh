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
# A daemon is not started, neither now nor with the machine: the tests start their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap '$sudo rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
  $sudo chmod 755 "$policy"
fi
$sudo apt-get -qq -o Acquire::Retries=3 update
$sudo apt-get -qq -o Acquire::Retries=3 install --no-install-recommends "$1" >/dev/null
if [ -e "/lib/systemd/system/$1.service" ] && command -v systemctl >/dev/null; then
  $sudo systemctl --quiet disable "$1"
fi
