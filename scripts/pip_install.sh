#!/bin/sh
# Install packages into the virtual environment FOLDER. PYTHON is a command, such as "uv run python".
# Use the pip of PYTHON if it has one. Otherwise use uv, or install pip into the environment.
#
#     scripts/pip_install.sh PYTHON FOLDER --editable '.[dev]'
set -eu
python=$1 folder=$2
shift 2
# PYTHON may be several words.
if $python -m pip --version > /dev/null 2>&1; then
  exec $python -m pip --python "$folder/bin/python" install --quiet --disable-pip-version-check "$@"
elif command -v uv > /dev/null; then
  exec uv pip install --quiet --python "$folder/bin/python" "$@"
elif "$folder/bin/python" -m ensurepip > /dev/null 2>&1; then
  exec "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
fi
echo "$python has no pip: install pip or uv, or name a Python that has it: make PYTHON=/usr/bin/python3 …" >&2
exit 1
