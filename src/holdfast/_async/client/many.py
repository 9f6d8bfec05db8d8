"""The methods of a client for many values or files, several at a time."""

from holdfast._async.client.content import AsyncContentCalls
from holdfast._async.client.pins import AsyncPinCalls


class AsyncManyCalls(AsyncContentCalls, AsyncPinCalls):
    """Stores, uploads and revokes many, several at a time."""
