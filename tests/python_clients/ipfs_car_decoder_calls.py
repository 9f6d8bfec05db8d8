"""The calls of ipfs-car-decoder with archives of the node. Prints what came, as JSON."""

import asyncio
import hashlib
import json
import sys
from pathlib import Path

import aiohttp
from ipfs_car_decoder import (
    CarDecodeException,
    CARStreamBlockIndexer,
    ChunkedMemoryByteStream,
    FileByteStream,
    stream_bytes,
    write_car_filesystem_to_path,
)

url, *cids = sys.argv[1:]


async def fetch(cid):
    """Read an archive as the documentation of the package does."""
    stream = ChunkedMemoryByteStream()
    accept = {"Accept": "application/vnd.ipld.car"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/ipfs/{cid}", headers=accept) as reply,
    ):
        reply.raise_for_status()
        assert reply.content_type == "application/vnd.ipld.car"
        async for chunk, _ in reply.content.iter_chunks():
            await stream.append_bytes(chunk)
    await stream.mark_complete()
    return stream


async def digest(cid, stream):
    total = hashlib.sha256()
    async for chunk in stream_bytes(cid, stream):
        total.update(chunk)
    return total.hexdigest()


async def main():
    out = {"streamed": [], "blocks": [], "written": []}
    for number, cid in enumerate(cids):
        stream = await fetch(cid)
        out["blocks"].append(len((await CARStreamBlockIndexer.from_stream(stream)).mapping))
        car, target = Path(f"{number}.car"), Path(f"{number}")
        car.write_bytes(bytes(stream._bytes))
        try:
            out["streamed"].append(await digest(cid, await fetch(cid)))
        except CarDecodeException as error:
            out["streamed"].append(str(error))
        async with FileByteStream(car) as saved:
            target.mkdir()
            await write_car_filesystem_to_path(cid, saved, str(target), "root")
        paths = sorted(path for path in target.rglob("*") if path.is_file())
        out["written"].append(
            {
                path.relative_to(target).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in paths
            }
        )
    print(json.dumps(out))


asyncio.run(main())
