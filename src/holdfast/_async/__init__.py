"""The async client, its providers and its verified reads, written by hand.

`_sync` is generated from it: see scripts/generate_sync.py.
"""
