# WARNING: this file is generated from src/holdfast/_async/reads/strategies/__init__.py
# by scripts/generate_sync.py. Change the original instead.
"""The strategies: ways to ask one gateway for content and to verify it, one per file."""
