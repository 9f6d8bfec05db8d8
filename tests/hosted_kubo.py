"""A hosted Kubo: five calls of its RPC API, with a bearer token, and pins without names."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from holdfast import ClientConfig
from holdfast.content.cid import CID
from holdfast.content.profiles import PROFILES
from holdfast.errors import ClientError
from holdfast.repository import Repository
from holdfast.sources.importing import import_content
from holdfast.testing import Recorded, Scripted, ScriptedServer, forward_to
from holdfast.testing.scripted_server import Script
from tests.engines import Kubo
from tests.support import TOKEN, form_parts, query_of

CALLS = ("add", "dag/import", "pin/add", "pin/ls", "pin/rm")
NAMES = ("name", "names", "pin-name")
MISSING = Scripted(status=404, headers={"Content-Type": "text/plain"}, body=b"404 page not found")


class HostedKubo:
    """A script for a server with the five calls, over a repository that a gateway reads.

    It does not know the options for names and streams, and writes no line break after a reply.
    Every other call is `missing`.
    """

    def __init__(self, repository: Repository, missing: Scripted = MISSING) -> None:
        self._repository = repository
        self._script = only_five_calls(self._reply, missing)

    def __call__(self, request: Recorded) -> Scripted:
        return self._script(request)

    def _reply(self, request: Recorded) -> Scripted:
        options = query_of(request)
        call = getattr(self, "_" + command_of(request).replace("/", "_"))
        try:
            values = call(options, request) if request.body else call(options)
        except ClientError as error:
            return Scripted(status=500, body={"Message": str(error), "Code": 0, "Type": "error"})
        body = "\n".join(json.dumps(value) for value in values).encode()
        return Scripted(headers={"Content-Type": "application/json"}, body=body)

    def _add(self, options: dict[str, str], request: Recorded) -> list[Any]:
        ((_, data),) = form_parts(request)
        (profile,) = (
            profile
            for profile in PROFILES.values()
            if options["chunker"] == f"size-{profile.chunk_size}"
            and options["cid-version"] == str(profile.cid_version)
        )
        with self._repository.adding() as adding:
            part = import_content(data, profile, adding.put)
            adding.pin(part.cid, size=part.dag_size)
        if options["pin"] == "false":
            self._repository.unpin(part.cid)  # the blocks stay until garbage is collected
        return [{"Name": "file", "Hash": str(part.cid), "Size": str(part.dag_size)}]

    def _dag_import(self, _: dict[str, str], request: Recorded) -> list[Any]:
        ((_, archive),) = form_parts(request)
        roots = [
            {"Root": {"Cid": {"/": pin.cid}, "PinErrorMsg": ""}}
            for pin in self._repository.import_car([archive])
        ]
        return [*roots, {"Stats": {"BlockCount": 1}}]

    def _pin_add(self, options: dict[str, str]) -> list[Any]:
        try:
            self._repository.pin(CID.parse(options["arg"]))
        except ClientError as error:
            raise ClientError(f"block was not found locally (offline): {error}") from None
        return [{"Pins": [options["arg"]]}]

    def _pin_ls(self, options: dict[str, str]) -> list[Any]:
        asked = options.get("arg")
        keys = {
            pin.cid: {"Type": "recursive"}
            for pin in self._repository.pins()
            if asked in (None, pin.cid)
        }
        if asked is not None and not keys:
            raise ClientError(f"path '{asked}' is not pinned")
        return [{"Keys": keys}]

    def _pin_rm(self, options: dict[str, str]) -> list[Any]:
        if not self._repository.unpin(CID.parse(options["arg"])):
            raise ClientError("not pinned or pinned indirectly")
        return [{"Pins": [options["arg"]]}]


def only_five_calls(script: Script, missing: Scripted = MISSING) -> Script:
    """Return `script` without other calls, without names of pins, and with a token."""

    def reply(request: Recorded) -> Scripted:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return Scripted(status=401, body={"Message": "no such token"})
        return script(request) if command_of(request) in CALLS else missing

    return reply


def nameless(kubo: Kubo) -> Script:
    """Return a script that forwards requests to a real Kubo, without the options for names."""
    forward = forward_to(kubo.api_url)

    def reply(request: Recorded) -> Scripted:
        path = request.target.partition("?")[0]
        options = {name: text for name, text in query_of(request).items() if name not in NAMES}
        headers = {name: text for name, text in request.headers.items() if name != "authorization"}
        target = f"{path}?{urlencode(options)}"
        return forward(Recorded(request.method, target, headers, request.body, b""))

    return reply


def command_of(request: Recorded) -> str:
    return request.target.partition("?")[0].removeprefix("/api/v0/")


@contextmanager
def hosted(
    script: Script, gateway_url: str | None
) -> Iterator[tuple[ScriptedServer, ClientConfig]]:
    """Start the server of a script; yield it with the configuration of its clients."""
    with ScriptedServer(script) as server:
        yield (
            server,
            ClientConfig(
                provider="kubo",
                pin_api_url=f"{server.url}/api/v0",  # as services show it
                provider_token=TOKEN,
                gateway_url=gateway_url,
                retries={"attempts": 1},
            ),
        )
