# WARNING: this file is generated from src/holdfast/_async/client/many.py
# by scripts/generate_sync.py. Change the original instead.
"""The methods of a client for many values or files, several at a time."""

from holdfast._sync.client.content import ContentCalls
from holdfast._sync.client.pins import PinCalls


class ManyCalls(ContentCalls, PinCalls):
    """Stores, uploads and revokes many, several at a time."""
