"""For tests of your own: real servers on this machine that reply as they are told.

Example:
    >>> from holdfast import Client
    >>> from holdfast.testing import ScriptedService
    >>> with ScriptedService() as service, Client.init(service.config) as client:
    ...     record = client.store({"hello": "world"})
    ...     client.retrieve(record.cid)
    {'hello': 'world'}
"""

from holdfast.testing.server import Recorded, Scripted, ScriptedServer
from holdfast.testing.service import ScriptedService

__all__ = ["Recorded", "Scripted", "ScriptedServer", "ScriptedService"]
