"""Names of what a request of the node has besides ASGI, in ``scope["extensions"]``.

Under another ASGI server, for example in a test, none of them is there.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

CONNECTION: Final = "holdfast.connection"  # the transport, to abort the connection
DRAIN: Final = "holdfast.drain"  # a function that waits until the client has read what was sent
TAKE_BODY: Final = "holdfast.take_body"  # one that takes the body, if all of it has arrived
# A sender that does not go through `send`; a middleware that changes bodies must remove it.
DIRECT: Final = "holdfast.direct"
RECEIVER: Final = "holdfast.receiver"  # receives parts of the body on a worker thread

Drain: TypeAlias = Callable[[], Awaitable[None]]
