# WARNING: this file is generated from src/holdfast/_async/providers/__init__.py
# by scripts/generate_sync.py. Change the original instead.
"""The providers that come with Holdfast, blocking."""
