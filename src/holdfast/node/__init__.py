"""The local node: the pinning API and the gateway protocols over one repository."""

from importlib.util import find_spec

for _needed in ("starlette", "uvicorn", "multipart"):
    if find_spec(_needed) is None:
        raise ModuleNotFoundError(
            f"the node needs {_needed}: pip install 'holdfast[node]'", name=_needed
        )
