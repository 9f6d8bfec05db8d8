"""The tests of async providers. `_sync` is generated from them: see scripts/generate_sync.py."""
