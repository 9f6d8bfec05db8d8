"""What the replies of Kubo's RPC API mean. Each function raises an error unless it is success."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.errors import (
    AuthenticationError,
    ClientError,
    InvalidCIDError,
    NotFoundError,
    ProviderError,
    RateLimitError,
    RequestTimeoutError,
)
from holdfast.hints import advise
from holdfast.protocol import json_text
from holdfast.protocol.host_privacy import WORLD, privacy
from holdfast.protocol.http import Reply
from holdfast.protocol.json_text import text_at
from holdfast.protocol.pin_lines import PinLines
from holdfast.protocol.status_errors import ErrorTable, failure, provider_error
from holdfast.records import Pin

OLDEST: Final = (0, 37)  # the first with pin-name for `add`; max-file-links came with 0.35
SERVER: Final = re.compile(r"kubo/(\d+)\.(\d+)\.")
VERSION: Final = re.compile(r"(\d+)\.(\d+)\.")
# Parts of addresses on the network (multiaddrs), such as ``/ip4/203.0.113.1/tcp/4001/p2p/12D3``.
HOSTS: Final = frozenset({"ip4", "ip6", "dns", "dns4", "dns6", "dnsaddr"})
PEER: Final = "/p2p/"
RELAY: Final = "/p2p-circuit"
MAX_ADDRESS: Final = 1000  # characters of one

KUBO_ERRORS: Final = ErrorTable(
    texts=(("Message",),),
    classes={401: AuthenticationError, 403: AuthenticationError, 429: RateLimitError},
    not_pinned=frozenset({500}),
    phrases=("not pinned",),
)
"""Kubo replies with 403 to wrong credentials, and with 500 to whatever it cannot do."""


def reply_error(reply: Reply, token: Secret | None, cid: str | None = None) -> ClientError:
    """Return the error of a failed reply; `cid` is the content that was asked for."""
    if (is_page(reply.headers) and reply.ok) or reply.status in {404, 405}:
        # Kubo sends no pages, and no command of ours is unknown to it.
        return not_kubo(reply, token)
    error = provider_error(reply, secret=token, table=KUBO_ERRORS)
    if reply.status != 500:
        return error
    if "context deadline exceeded" in error.message:
        return RequestTimeoutError(
            f"Kubo did not find {cid or 'the content'} in time: check that a node that has it can "
            "be reached, or allow more time (timeouts)",
            sent=True,
            transient=False,
        )
    if "not found locally" in error.message or "could not find" in error.message:
        return NotFoundError(
            f"Kubo does not have {cid or 'the content'}, and found nobody who has it",
            status=reply.status,
            details=error.details,
        )
    return error


def is_page(headers: Mapping[str, str]) -> bool:
    """Return whether a reply is HTML."""
    return headers.get("content-type", "").lower().startswith("text/html")


def not_kubo(reply: Reply, token: Secret | None) -> ProviderError:
    """Return the error for a reply that cannot be Kubo's."""
    return failure(
        "the reply is not that of Kubo's RPC API: check that pin_api_url is its address (port 5001 "
        "by default, not the gateway's port), and that no proxy or login page is in between",
        reply,
        secret=token,
        table=KUBO_ERRORS,
    )


def lacks_rights(reply: Reply, commands: list[str], token: Secret | None) -> ProviderError:
    """Return the error for a valid token whose user may not call `commands`."""
    paths = ", ".join(f'"/api/v0/{command}"' for command in commands)
    error = failure(  # the table of the spec: the token is accepted, so this is a lack of access
        f"Kubo accepts the token, but not for {', '.join(commands)}",
        reply,
        details=provider_error(reply, secret=token, table=KUBO_ERRORS).details,
        secret=token,
    )
    return advise(
        error,
        f"add {paths} to AllowedPaths of this user in API.Authorizations of Kubo's settings "
        '("/api/v0" allows everything), and start Kubo again',
    )


def check_age(reply: Reply, token: Secret | None) -> None:
    """Raise ProviderError if the reply says that it is of a Kubo that lacks what we need."""
    found = SERVER.match(reply.headers.get("server", ""))
    if found is not None:
        _check_version(found, reply, token)


def check_version(reply: Reply, token: Secret | None) -> None:
    """Check the reply of ``version``."""
    found = VERSION.match(text_at(_objects(reply, token)[-1], "Version"))
    if found is None:
        raise not_kubo(reply, token)
    _check_version(found, reply, token)


def _check_version(found: re.Match[str], reply: Reply, token: Secret | None) -> None:
    version = int(found[1]), int(found[2])
    if version < OLDEST:
        raise failure(
            f"Kubo {version[0]}.{version[1]} is too old: it cannot be told how to cut files and "
            f"name pins; update it to {OLDEST[0]}.{OLDEST[1]} or newer",
            reply,
            secret=token,
            table=KUBO_ERRORS,
        )


def read_hash(reply: Reply, token: Secret | None) -> CID:
    """Return the CID that ``add`` reports in its last object."""
    return _cid(text_at(_objects(reply, token)[-1], "Hash"), reply, token)


def check_import(reply: Reply, roots: list[CID], token: Secret | None) -> None:
    """Check that ``dag/import`` has imported a whole archive and pinned its `roots`."""
    *reports, last = _objects(reply, token)
    if not isinstance(last.get("Stats"), dict):
        raise _cut_off(reply, token)
    pinned = []
    for report in reports:
        root = report.get("Root")
        if words := text_at(root, "PinErrorMsg"):
            raise failure(
                f"Kubo imported the upload and could not pin it: {words}",
                reply,
                secret=token,
                table=KUBO_ERRORS,
            )
        link = root.get("Cid") if isinstance(root, dict) else None
        pinned.append(_cid(text_at(link, "/"), reply, token))
    if pinned != roots:
        raise _cut_off(reply, token)


def check_pins(reply: Reply, cid: str, token: Secret | None) -> None:
    """Check that ``pin/add`` or ``pin/rm`` reports the pin of `cid` in its last object."""
    pins = _objects(reply, token)[-1].get("Pins")
    if not isinstance(pins, list) or not pins:
        raise failure(
            f"Kubo stopped before it had all of {cid}: check that a node that has it can be "
            "reached, or allow more time (timeouts.total)",
            reply,
            secret=token,
            table=KUBO_ERRORS,
        )
    if _cid(str(pins[0]), reply, token) != CID.parse(cid):
        raise not_kubo(reply, token)


def read_addresses(reply: Reply) -> list[str]:
    """Return the public addresses of the node on the network; none where Kubo is offline."""
    value = _object(reply.body)
    found = None if value is None else value.get("Addresses")
    return public_addresses(found if isinstance(found, list) else [])


def public_addresses(addresses: Iterable[object]) -> list[str]:
    """Return the addresses that all can reach, which name a peer; services refuse all others.

    Example:
        >>> public_addresses(["/ip4/10.0.0.1/tcp/4001/p2p/12D3", "/dns/example.com/tcp/1/p2p/12D3"])
        ['/dns/example.com/tcp/1/p2p/12D3']
    """
    texts = (each for each in addresses if isinstance(each, str) and len(each) <= MAX_ADDRESS)
    return [each for each in dict.fromkeys(texts) if _is_public(each)]


def _is_public(address: str) -> bool:
    if RELAY in address or PEER not in address or not address.isascii():
        return False
    empty, kind, host, *_ = [*address.split("/"), "", ""]
    return not empty and kind in HOSTS and bool(host) and privacy(host) == WORLD


def read_pin(reply: Reply, token: Secret | None) -> Pin:
    """Return the one pin in the reply of ``pin/ls`` for a CID."""
    keys = _objects(reply, token)[-1].get("Keys")
    if not isinstance(keys, dict) or len(keys) != 1:
        raise not_kubo(reply, token)
    ((cid, about),) = keys.items()
    _cid(cid, reply, token)
    return make_pin(cid, text_at(about, "Name"))


def make_pin(cid: str, name: str) -> Pin:
    """Return a pin. Kubo knows neither its size nor its time, and has no other id than the CID."""
    return Pin(id=cid, cid=cid, name=name, size=None, created=None)


class KuboPinLines(PinLines[Pin]):
    """Reads the stream of ``pin/ls``."""

    max_line = 1 << 16  # a name has at most 255 bytes

    def read(self, value: dict[str, Any]) -> Pin:
        """Return the pin of a line."""
        cid = text_at(value, "Cid")
        _cid(cid, Reply(200, {}), self._token)
        return make_pin(cid, text_at(value, "Name"))

    def wrong_api(self, reply: Reply) -> ProviderError:
        """Return the error for a list that is not Kubo's."""
        return not_kubo(reply, self._token)

    def cut_off(self, reply: Reply) -> ProviderError:
        """Return the error for a list that is not complete."""
        return _cut_off(reply, self._token)


def _objects(reply: Reply, token: Secret | None) -> list[dict[str, Any]]:
    """Return the objects of a successful reply, at least one."""
    found = [_object(line) for line in reply.body.splitlines() if line.strip()]
    if not found and reply.media_type == "application/json":
        raise _cut_off(reply, token)
    known = [each for each in found if each is not None]
    if not found or len(known) < len(found):
        raise not_kubo(reply, token)
    return known


def _object(line: bytes) -> dict[str, Any] | None:
    value = json_text.value_of(line)
    return value if isinstance(value, dict) else None


def _cid(text: str, reply: Reply, token: Secret | None) -> CID:
    try:
        return CID.parse(text)
    except InvalidCIDError:
        raise _cut_off(reply, token) from None


def _cut_off(reply: Reply, token: Secret | None) -> ProviderError:
    return failure(
        "Kubo's reply does not say that it has done all of it: an error of Kubo came in between, "
        "which its log shows; try again",
        reply,
        secret=token,
        table=KUBO_ERRORS,
    )
