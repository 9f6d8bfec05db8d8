"""The local node: the service's APIs and the gateway protocols over one repository.

- `application`: the ASGI application, which routes requests to what follows
- `pinning_api`, `v3_api`, `psa_api`: three dialects of the `service`, which has all that they do
- `api_calls`, `client_values`, `form_upload`: what their calls share
- `gateway/`: read content under ``/ipfs/{cid}``
- `page/`: the page for browsers
- `http_server/`: connections, request bodies and replies, within limits of time and memory
- `node_server`: run the application on a thread, or until interrupted
"""

from importlib.util import find_spec

for _package in ("starlette", "uvicorn", "multipart"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(
            f"the node needs {_package}: pip install 'holdfast[node]'", name=_package
        )
