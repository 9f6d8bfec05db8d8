"""The command line `holdfast`: each command asks the library, and words its answer.

A command that starts must not wait for what it does not use: modules here import the standard
library, Typer and the package itself, whose names are imported when asked for; everything else is
imported where it is used.
"""
