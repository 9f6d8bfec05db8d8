"""The async colour, written by hand. `_sync` is generated from it: see scripts/generate_sync.py."""
