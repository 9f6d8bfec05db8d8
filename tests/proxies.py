"""Real reverse proxies in front of a gateway: nginx, Caddy and HAProxy, on loopback ports."""

import hashlib
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import Client
from holdfast.testing import RunningNode
from tests.clusters import free_port
from tests.engines import Kubo, end
from tests.support import wait_until

# All paths are set, because the defaults are folders of the system.
NGINX = """\
{user}
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/errors;
events {{}}
http {{
  access_log {folder}/requests;
  client_body_temp_path {folder}/body;
  fastcgi_temp_path {folder}/fastcgi;
  scgi_temp_path {folder}/scgi;
  uwsgi_temp_path {folder}/uwsgi;
  proxy_temp_path {folder}/proxy;
  proxy_cache_path {folder}/cache keys_zone=gateway:1m max_size=256m;
  server {{
    listen 127.0.0.1:{port};
    sendfile on;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    {how}
    location / {{ proxy_pass {upstream}; }}
  }}
}}
"""
# A reply from the cache: the head is sent first, and then all of the file at once.
NGINX_CACHE = "proxy_cache gateway; proxy_cache_valid 200 206 1h;"
NGINX_BUFFERING = "proxy_buffers 8 1m; proxy_buffer_size 64k; proxy_busy_buffers_size 2m;"

CADDY = """\
{{
  admin off
  auto_https off
}}
http://127.0.0.1:{port} {{
  bind 127.0.0.1
  reverse_proxy {upstream} {{
    buffer_responses
  }}
}}
"""

HAPROXY = """\
global
  maxconn 200
defaults
  mode http
  timeout connect 10s
  timeout client 60s
  timeout server 60s
cache gateway
  total-max-size 64
  max-object-size 2000000
  max-age 3600
frontend proxy
  bind 127.0.0.1:{port}
  http-request cache-use gateway
  http-response cache-store gateway
  default_backend upstream
backend upstream
  server gateway {host}
"""


class Proxy(NamedTuple):
    """A program, its configuration, and how it is started with the file of that."""

    program: str
    configuration: str
    arguments: tuple[str, ...]


PROXIES = {
    "nginx with a cache": Proxy("nginx", NGINX.replace("{how}", NGINX_CACHE), ("-c", "{file}")),
    "nginx with buffers": Proxy("nginx", NGINX.replace("{how}", NGINX_BUFFERING), ("-c", "{file}")),
    "Caddy with buffers": Proxy("caddy", CADDY, ("run", "--adapter=caddyfile", "--config={file}")),
    "HAProxy with a cache": Proxy("haproxy", HAPROXY, ("-db", "-f", "{file}")),
}


def program_path(name: str) -> str:
    """Return the path of a proxy on this machine, or skip the test where it is not installed.

    Where its variable is set, such as `HOLDFAST_NGINX`, that is the path, and a missing program is
    no skip.
    """
    folders = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"  # which a user's own PATH may lack
    path = os.environ.get(f"HOLDFAST_{name.upper()}") or shutil.which(name, path=folders)
    if path is None:
        pytest.skip(f"{name} is not installed: make proxies")
    return path


@contextmanager
def running_proxy(name: str, upstream: str, folder: Path) -> Iterator[str]:
    """Start a proxy of the gateway at `upstream`, stop it at the end. Yield its own gateway URL."""
    proxy = PROXIES[name]
    program, port = program_path(proxy.program), free_port()
    file, log = folder / "configuration", folder / "log"
    origin = upstream.removesuffix("/ipfs")
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    text = proxy.configuration.format(
        folder=folder,
        port=port,
        upstream=origin,
        host=origin.removeprefix("http://"),
        user="user root;" if is_root else "",  # another could not write to the folder
    )
    file.write_text(text)
    with log.open("wb") as output:
        daemon = subprocess.Popen(  # noqa: S603
            [program, *(argument.format(file=file) for argument in proxy.arguments)],
            env={**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)},
            cwd=folder,
            stdout=output,
            stderr=output,
        )

    def is_ready() -> bool:
        assert daemon.poll() is None, f"{name} did not start: {log.read_text()}"
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(is_ready)
        yield f"http://127.0.0.1:{port}/ipfs"
    finally:
        end(daemon, kill=False)


LARGEST = 20_000_000
OBJECTS = 50


class Objects(NamedTuple):
    """Files behind a gateway, and the SHA-256 of each."""

    gateway_url: str
    digests: dict[str, bytes]

    def choices(self, count: int) -> list[str]:
        """Return the CIDs of `count` reads, by chance but the same ones each time."""
        return random.Random(count).choices(list(self.digests), k=count)  # noqa: S311


def add_objects(server: Kubo | RunningNode) -> Objects:
    """Add files whose sizes are log-uniform from 1 byte to `LARGEST`."""
    chance = random.Random(20)  # noqa: S311
    digests = {}
    for number in range(OBJECTS):
        data = chance.randbytes(round(LARGEST ** ((number + chance.random()) / OBJECTS)))
        digests[_add(server, data)] = hashlib.sha256(data).digest()
    return Objects(server.gateway_url, digests)


def _add(server: Kubo | RunningNode, data: bytes) -> str:
    if isinstance(server, Kubo):
        return server.add(data, cid_version=1)
    with Client.init(server.config) as client:
        return client.upload(data).cid
