# WARNING: this file is generated from src/holdfast/_async/reads/__init__.py
# by scripts/generate_sync.py. Change the original instead.
"""Verified reads: content from gateways, none of which is trusted."""
