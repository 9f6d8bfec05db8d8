"""Uploads from browsers: the server signs a link, and the browser sends the file to it.

The key stays on the server, and the file does not go through it. Run it from the folder above this
one, with `HOLDFAST_PROVIDER=pinata`, `HOLDFAST_PROVIDER_TOKEN` and `HOLDFAST_GATEWAY_URL` set::

    pip install '.[async]' fastapi uvicorn   # in a clone of Holdfast
    uvicorn --app-dir examples browser_upload:app

Then open http://localhost:8000 and choose an image. A real service would ask who somebody is before
it signs a link for them.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse

from holdfast import AsyncClient, ClientConfig, errors

LARGEST: Final = 5_000_000  # bytes
PAGE: Final = """<!doctype html>
<html lang="en">
<title>Upload an image</title>
<link rel="icon" href="data:,">
<label>An image of up to 5 MB: <input type="file" accept="image/*"></label>
<p role="status"></p>
<script type="module">
  const status = document.querySelector("p");

  async function json(reply) {
    const value = await reply.json();
    if (!reply.ok) throw new Error(value.detail ?? value.error.message);
    return value;
  }

  document.querySelector("input").onchange = async ({ target }) => {
    try {
      const form = new FormData();
      form.append("network", "public");
      form.append("file", target.files[0]);
      const { link } = await json(await fetch("/upload-link", { method: "POST" }));
      const { data } = await json(await fetch(link, { method: "POST", body: form }));
      const image = await json(await fetch(`/images/${data.cid}`, { method: "POST" }));
      status.textContent = `${image.name} is ${image.cid}`;
    } catch (error) {
      status.textContent = error.message;
    }
  };
</script>
"""


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncGenerator[dict[str, AsyncClient]]:
    """One client for all requests."""
    async with AsyncClient.init(ClientConfig.from_env()) as client:
        yield {"client": client}


app = FastAPI(title="Uploads from browsers", lifespan=lifespan)


@app.get("/", response_class=HTMLResponse)
async def page() -> str:
    """Return the page."""
    return PAGE


@app.post("/upload-link")
async def upload_link(request: Request) -> dict[str, str]:
    """Sign a link for one image, for a minute."""
    client: AsyncClient = request.state.client
    link = await client.signed_upload_url(expires=60, max_bytes=LARGEST, types=["image/*"])
    return {"link": link}


@app.post("/images/{cid}")
async def register(cid: str, request: Request) -> dict[str, Any]:
    """Take note of an image, if it is really there: a browser can say anything."""
    client: AsyncClient = request.state.client
    try:
        pins = await client.pins(cid=cid)
    except errors.InvalidCIDError as error:
        raise HTTPException(422, str(error)) from None
    if not pins:
        raise HTTPException(404, "there is no such image")
    return {"cid": cid, "name": pins[0].name, "size": pins[0].size}
