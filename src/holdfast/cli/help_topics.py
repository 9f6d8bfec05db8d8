"""Texts of the help beside those of the commands: the first screen, and the topics."""

from typing import Final

from holdfast.cli import exit_codes

FIRST_SCREEN: Final = """\
Holdfast pins JSON and files to IPFS and reads them back, every byte verified
against its CID.

  holdfast upload FILE      store a file or folder; write its CID
  holdfast download CID     get it back, verified
  holdfast store JSON       store a JSON value; `retrieve CID` reads it
  holdfast list             list what is pinned
  holdfast node             run a node, with a page for your browser

Without settings, it all stays on your disk: no account, no network.
See them work: holdfast demo. Read about one: holdfast help upload.
All commands: holdfast --help"""
"""What ``holdfast`` writes without arguments."""

SETTINGS: Final = """\
The first of these that has a setting decides:

  1. flags, such as --provider
  2. the connection that --use, HOLDFAST_USE or a file names
  3. variables: HOLDFAST_PROVIDER, HOLDFAST_PROVIDER_TOKEN, …
  4. holdfast.toml in this folder or one above it
  5. holdfast.toml in your folder for settings

`holdfast config` shows each setting, and where it came from. `holdfast config
set` changes the last file, and `holdfast login` saves a token in it. The token
may also be in a variable, in a file that --token-file or a connection names,
or typed at a prompt."""

JSON: Final = """\
With --json before or after the command, the result is one line of JSON on
standard output. `ls CID`, `copy` and `restore`, and `upload` and `revoke` of
several, write a line for each.

On standard error, each line is one of
  {"error": {"name": …, "message": …, "remedy": …, "exitCode": …}}
  {"warning": …}
  {"log": …}, with --verbose"""

TOPICS: Final = {
    "exit-codes": exit_codes.table(),
    "settings": SETTINGS,
    "json": JSON,
}
"""The topics of ``holdfast help``."""
