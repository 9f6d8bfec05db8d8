"""The command line `holdfast`: each command calls the library and writes the result.

To start fast, modules here import at the top only the standard library, Typer, and `holdfast`
itself, which imports its names on first use. Everything else is imported where it is used.
"""
