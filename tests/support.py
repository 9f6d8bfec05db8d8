"""What several tests need: well-known CIDs, a configuration for a scripted server, scripts."""

import atexit
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from holdfast import ClientConfig
from holdfast.content.cid import CID
from holdfast.testing import Recorded, ScriptedServer

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ0ZXN0In0.c2lnbmF0dXJl"
GATEWAY_TOKEN = "gateway-token-0123456789"

SIZES = {
    0: "0 B",
    1023: "1023 B",
    1024: "1.00 KiB",
    1152: "1.13 KiB",
    10_234: "9.99 KiB",
    10_235: "10.0 KiB",
    102_348: "99.9 KiB",
    102_349: "100 KiB",
    1_048_063: "1023 KiB",
    1_048_064: "1.00 MiB",
    20_000_000: "19.1 MiB",
    5 << 30: "5.00 GiB",
    3 << 40: "3.00 TiB",
    2000 << 50: "2000 PiB",
}
"""Numbers of bytes, and how the commands and the page write them."""

# Published by the pinning service: the bytes "hello", pinned with cidVersion 1.
HELLO_CID = "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq"
# The empty file and the empty directory of Kubo, as CIDv0: dag-pb.
EMPTY_FILE_V0 = "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH"
EMPTY_DIRECTORY_V0 = "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn"

# Content that no service or engine of the tests has.
NOBODY_HAS = str(CID.of_raw(b"nobody has this"))


def raw_cid(data: bytes) -> str:
    return str(CID.of_raw(data))


def pinned(cid: str = HELLO_CID) -> dict[str, Any]:
    return {"IpfsHash": cid, "PinSize": 5, "Timestamp": "2024-07-11T23:33:27.665Z"}


def all_calls(client: Any, folder: Path) -> list[Callable[[], Any]]:
    """Calls that send a request, of a client of either colour."""
    return [
        client.test_connection,
        client.pins,
        lambda: client.store([1]),
        lambda: client.upload(folder),
        lambda: client.upload(iter([b"x"])),
        lambda: client.download(NOBODY_HAS),
        lambda: client.pin(NOBODY_HAS),
        lambda: client.update(NOBODY_HAS, name="x"),
        lambda: client.revoke(NOBODY_HAS),
    ]


def query_of(request: Recorded) -> dict[str, str]:
    """Return the query of a request, in which no name comes twice."""
    return {name: value for name, (value,) in parse_qs(urlsplit(request.target).query).items()}


def form_parts(request: Recorded) -> list[tuple[str, bytes]]:
    """Return the parts of a form, as (headers, content)."""
    boundary = request.headers["content-type"].partition("boundary=")[2].encode()
    head, *parts, tail = request.body.split(b"--" + boundary)
    assert (head, tail) == (b"", b"--\r\n")
    pairs = [part.removeprefix(b"\r\n").partition(b"\r\n\r\n")[::2] for part in parts]
    return [(headers.decode(), content.removesuffix(b"\r\n")) for headers, content in pairs]


def config_for(server: ScriptedServer, **changes: Any) -> ClientConfig:
    fields: dict[str, Any] = {
        "provider": "pinning",
        "provider_token": TOKEN,
        "pin_api_url": server.url,
        "gateway_url": f"{server.url}/ipfs",
        # One exchange is what most tests look at; those of the faults say otherwise.
        "retries": {"attempts": 1},
    }
    return ClientConfig(**{**fields, **changes})


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until `condition` is true; fail after `seconds`, more than a busy machine needs."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what was waited for did not happen"
        time.sleep(0.01)


def script_output(*command: str | Path, cwd: Path, **environment: str) -> Any:
    """Run a script that prints JSON, and return what it printed."""
    result = subprocess.run(  # noqa: S603
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@cache
def closed_port_url() -> str:
    """The address of a port on which nobody listens, nor will: it is taken, and refuses."""
    taken = socket.socket()
    atexit.register(taken.close)
    taken.bind(("127.0.0.1", 0))
    return f"http://127.0.0.1:{taken.getsockname()[1]}"
