"""The entry point of the installed command."""

import sys


def main() -> None:
    """Run the command line; without its extra, say what to install."""
    try:
        from holdfast.cli.app import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit("error: the command line needs typer: pip install 'holdfast[cli]'")
    app(prog_name="holdfast")
