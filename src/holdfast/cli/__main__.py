"""`python -m holdfast.cli`: the command, where its script is not on the path."""

from holdfast.cli.main import main

if __name__ == "__main__":
    main()
