"""The local node: the service's APIs and the gateway protocols over one repository.

- `application`: the ASGI application, which routes requests to the four folders below it
- `pinning_api/`: pin, unpin and list, as the pinning service does
- `v3_api/`: files, resumable uploads, groups and private files, as its newer API has them
- `gateway/`: read content under ``/ipfs/{cid}``
- `page/`: the page for browsers
- `http_server/`: connections, request bodies and replies, within limits of time and memory
- `node_server` and `foreground`: run the application on a thread, or until interrupted
"""

from importlib.util import find_spec

for _package in ("starlette", "uvicorn", "multipart"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(
            f"the node needs {_package}: pip install 'holdfast[node]'", name=_package
        )
