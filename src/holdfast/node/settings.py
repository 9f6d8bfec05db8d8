"""The settings of a node: its tokens and its limits."""

import hmac
from dataclasses import dataclass, field
from typing import Final

from holdfast.content.profiles import KUBO_LEGACY_CIDV1, PROFILES
from holdfast.errors import ConfigError
from holdfast.node.memory import CACHE_LIMIT

SCOPES: Final = frozenset(
    {
        *("pinJSONToIPFS", "pinFileToIPFS", "pinByHash", "pinJobs", "unpin", "hashMetadata"),
        *("pinList", "userPinnedDataTotal"),
        *("org:read", "org:write", "org:files:read", "org:files:write"),
        *("org:groups:read", "org:groups:write"),
    }
)
DEFAULT_KEY: Final = "holdfast"
DEFAULT_V3_PROFILE: Final = KUBO_LEGACY_CIDV1.name


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeToken:
    """A credential of the node, and the endpoints that it may use.

    Clients send it as a bearer token, or as a key pair with the token as the secret.

    Attributes:
        token: The bearer token.
        key: The key of the pair.
        scopes: The endpoints that it may use; None for all.
    """

    token: str = field(repr=False)
    key: str = DEFAULT_KEY
    scopes: frozenset[str] | None = None

    def is_bearer(self, bearer: str) -> bool:
        """Return whether `bearer` is this token, in constant time."""
        return hmac.compare_digest(bearer.encode("utf-8", "replace"), self.token.encode())

    def is_pair(self, key: str, secret: str) -> bool:
        """Return whether the key pair is this one."""
        is_key = hmac.compare_digest(key.encode("utf-8", "replace"), self.key.encode())
        return is_key and self.is_bearer(secret)

    def allows(self, scope: str | None) -> bool:
        """Return whether the token may use an endpoint of this scope; None is always allowed.

        Of the scopes of the v3 API, one to write includes the one to read, and one for ``org``
        includes the one for its files.
        """
        if scope is None or self.scopes is None:
            return True
        parts = scope.split(":")
        wider = {scope, scope.replace(":read", ":write")}
        if parts[0] == "org":
            wider |= {f"org:{parts[-1]}", "org:write"}
        return bool(wider & self.scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The settings of a node.

    Attributes:
        tokens: The credentials that the node accepts.
        rate_limit: Requests to the APIs for each token and minute; None for no limit.
        gateways: The gateways from which missing content is fetched, to pin it by its CID.
        max_json: The most bytes of a JSON body; the service's own limit.
        max_upload: The most bytes of an upload; the service's own limit.
        idle_seconds: How long the body of a request may stall.
        cache_bytes: The bytes of the cache of verified blocks, which all requests share.
        v3_profile: The layout of files that are uploaded by the v3 API; that of the service.
        pretend_pinned: Whether the Pinning Services API calls content pinned that is not in the
            store. It is for the compliance suite, which pins CIDs of content that exists nowhere.
    """

    tokens: tuple[NodeToken, ...]
    rate_limit: int | None = None
    gateways: tuple[str, ...] = ()
    max_json: int = 10_000_000
    max_upload: int = 25_000_000_000
    idle_seconds: float = 60.0
    cache_bytes: int = CACHE_LIMIT
    v3_profile: str = DEFAULT_V3_PROFILE
    pretend_pinned: bool = False

    def __post_init__(self) -> None:
        if self.v3_profile not in PROFILES:
            names = ", ".join(PROFILES)
            raise ConfigError(f"v3_profile must be one of {names}, not {self.v3_profile!r}")
