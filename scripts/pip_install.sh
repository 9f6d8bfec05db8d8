#!/bin/sh
# Install packages into the virtual environment FOLDER.
# Use the pip of PYTHON if it has one; otherwise use uv, or install pip into the environment.
# PYTHON may be several words, such as "uv run python"; a space in its path is written "\ ".
#
#     scripts/pip_install.sh PYTHON FOLDER --editable '.[dev]'
set -eu
python=$1 folder=$2
shift 2
if eval "$python -m pip --version" > /dev/null 2>&1; then
  eval "exec $python"' -m pip --python "$folder/bin/python" install --quiet --disable-pip-version-check "$@"'
elif command -v uv > /dev/null; then
  exec uv pip install --quiet --python "$folder/bin/python" "$@"
elif "$folder/bin/python" -m ensurepip > /dev/null 2>&1; then
  exec "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
fi
echo "$python has no pip: install pip or uv, or name a Python that has it: make PYTHON=/usr/bin/python3 …" >&2
exit 1
