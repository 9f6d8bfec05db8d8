"""What a node is told: who may do what, and where its patience ends."""

import hmac
from dataclasses import dataclass
from typing import Final

from holdfast.node.memory import CACHE_LIMIT

SCOPES: Final = frozenset(
    {
        *("pinJSONToIPFS", "pinFileToIPFS", "pinByHash", "pinJobs", "unpin", "hashMetadata"),
        *("pinList", "userPinnedDataTotal"),
    }
)
DEFAULT_KEY: Final = "holdfast"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeToken:
    """A credential that the node takes, and what it is good for.

    As a key pair it is `key` with the token as the secret.

    Attributes:
        token: The bearer token.
        key: The key of the pair.
        scopes: The calls that it allows; None allows all.
    """

    token: str
    key: str = DEFAULT_KEY
    scopes: frozenset[str] | None = None

    def __repr__(self) -> str:
        return f"NodeToken(key={self.key!r}, scopes={self.scopes!r})"

    def is_bearer(self, given: str) -> bool:
        """Whether `given` is this token; takes as long for every wrong one."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def is_pair(self, key: str, secret: str) -> bool:
        """Whether the key pair is this one."""
        return hmac.compare_digest(
            key.encode("utf-8", "replace"), self.key.encode()
        ) and self.is_bearer(secret)

    def allows(self, scope: str | None) -> bool:
        """Whether a call of this scope may be made; a call without one always may."""
        return scope is None or self.scopes is None or scope in self.scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The settings of a node.

    Attributes:
        tokens: Who is let in.
        rate_limit: Requests to the pinning API a minute and token; None for any number.
        gateways: Where `pinByHash` looks for what is not here.
        max_json: The bytes of a JSON body at the most; the service's own limit.
        max_upload: The bytes of an upload at the most; the service's own limit.
        idle_seconds: How long a request may stand still before it is given up.
        cache_bytes: The bytes of verified blocks that all readers share in memory.
    """

    tokens: tuple[NodeToken, ...]
    rate_limit: int | None = None
    gateways: tuple[str, ...] = ()
    max_json: int = 10_000_000
    max_upload: int = 25_000_000_000
    idle_seconds: float = 60.0
    cache_bytes: int = CACHE_LIMIT
