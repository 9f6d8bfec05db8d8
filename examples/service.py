"""A web service that keeps files and JSON on IPFS: FastAPI on top of one `AsyncClient`.

Run it from the folder above this one. Without settings it keeps everything on this machine's disk;
with `HOLDFAST_PROVIDER=pinning` and `HOLDFAST_PROVIDER_TOKEN`, at the service::

    pip install '.[async]' fastapi python-multipart uvicorn   # in a clone of Holdfast
    uvicorn --app-dir examples service:app

Then, from another terminal::

    curl -F file=@README.md localhost:8000/files         # {"cid": "bafkrei…", "size": …}
    curl -T README.md localhost:8000/files/README.md     # the same, without a copy on the way
    curl localhost:8000/files/bafkrei…                   # verified against its CID as it streams
    curl -r 100-199 localhost:8000/files/bafkrei…        # of a large file, little more is read
    curl --json '{"hello": "world"}' localhost:8000/json
    curl localhost:8000/json/bafkrei…
    curl localhost:8000/health

http://localhost:8000/docs has all of it to click on.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import Body, Depends, FastAPI, Header, HTTPException, Request, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from holdfast import AsyncClient, ClientConfig, errors

PIECE: Final = 1 << 18  # bytes that one step of a download sends

STATUSES: Final[dict[type[errors.ClientError], int]] = {
    errors.InvalidCIDError: 422,  # the caller's mistakes
    errors.SerializationError: 422,
    errors.NotAFileError: 422,
    errors.NotFoundError: 404,
    errors.RateLimitError: 503,  # nobody's: worth another try
    errors.RequestTimeoutError: 504,
    errors.NetworkError: 503,
    errors.ClientError: 502,  # ours or the provider's, a refused token among them: not the caller's
}


class Stored(BaseModel):
    """Where something is kept from now on."""

    cid: str
    size: int


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncGenerator[dict[str, AsyncClient]]:
    """One client for all requests: they share its connections, its rate limit and its retries."""
    async with AsyncClient.init(ClientConfig.from_env()) as client:
        yield {"client": client}


def the_client(request: Request) -> AsyncClient:
    client: AsyncClient = request.state.client
    return client


Holdfast = Annotated[AsyncClient, Depends(the_client)]
app = FastAPI(title="Holdfast example", lifespan=lifespan)


@app.exception_handler(errors.ClientError)
async def fail(_request: Request, error: errors.ClientError) -> JSONResponse:
    """Whatever goes wrong in the SDK: the nearest status above, and the error's own sentence."""
    status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    wait = getattr(error, "retry_after", None)
    headers = {} if wait is None else {"Retry-After": f"{wait:.0f}"}
    return JSONResponse({"error": error.name, "detail": error.message}, status, headers)


@app.post("/files", status_code=201)
async def upload(file: UploadFile, client: Holdfast) -> Stored:
    """Keep a file. FastAPI has spooled it to disk, and from there it streams."""
    record = await client.upload(file.file, name=base_name(file.filename))
    return Stored(cid=record.cid, size=record.size)


@app.put("/files/{name}", status_code=201)
async def upload_stream(name: str, request: Request, client: Holdfast) -> Stored:
    """Keep the body of the request: what has come in goes on to the provider at once."""
    record = await client.upload(request.stream(), name=base_name(name))
    return Stored(cid=record.cid, size=record.size)


@app.get("/files/{cid:path}")
async def download(
    cid: str, client: Holdfast, byte_range: Annotated[str | None, Header(alias="range")] = None
) -> StreamingResponse:
    """A file, or the part of it that a Range header asks for; any player can seek in it."""
    file = await client.open(cid)  # what cannot be had fails here, while there is still a status
    part = part_of(byte_range, file.size)
    start, stop = part or (0, file.size)

    async def pieces() -> AsyncGenerator[bytes]:
        # Each piece is verified before it is sent. One that cannot be breaks the connection, short
        # of the promised length, so that nobody takes the beginning for the whole.
        async with file:
            file.seek(start)
            while left := stop - file.tell():
                yield await file.read(min(PIECE, left))

    headers = {
        "Content-Length": str(stop - start),
        "Content-Type": "application/octet-stream",  # no stranger's page runs on our origin
        "Accept-Ranges": "bytes",
        "Cache-Control": "public, max-age=31536000, immutable",  # a CID never means anything else
    }
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    return StreamingResponse(pieces(), 200 if part is None else 206, headers)


@app.post("/json", status_code=201)
async def store(value: Annotated[Any, Body()], client: Holdfast) -> Stored:
    """Keep a JSON value."""
    record = await client.store(value)
    return Stored(cid=record.cid, size=record.size)


@app.get("/json/{cid:path}")
async def retrieve(cid: str, client: Holdfast) -> Any:
    """The JSON value at a CID."""
    return await client.retrieve(cid)


@app.get("/health")
async def health(client: Holdfast) -> dict[str, str]:
    """Whether the provider takes our credentials now: asked once, and not for long."""
    await client.with_options(retries={"attempts": 1}, timeouts={"total": 5}).test_connection()
    return {"status": "ok"}


def base_name(given: str | None) -> str | None:
    """The last part of what a browser calls the file, which may be a path; None for no name."""
    name = re.split(r"[/\\\0]", given or "")[-1]
    return None if name in {"", ".", ".."} else name


def part_of(byte_range: str | None, size: int) -> tuple[int, int] | None:
    """Where the wanted part starts and stops; None, for all, also where several are asked for."""
    match = re.fullmatch(r"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))", byte_range or "")
    if match is None:
        return None
    first, last, length = match.groups()
    start = max(0, size - int(length)) if length else int(first)
    stop = min(size, int(last) + 1) if last else size
    if start >= stop:
        raise HTTPException(416, "no such bytes", {"Content-Range": f"bytes */{size}"})
    return start, stop
