"""The content in the body of ``pinJSONToIPFS``."""

from typing import Any, Final

from holdfast.node.http_server.refusals import bad_request
from holdfast.node.pinning_api.json_values import with_numbers, write_json
from holdfast.node.pinning_api.metadata import PinOptions, read_metadata, read_options

CONTENT_NAMES: Final = ("pinataContent", "pinContent")


def read_content(body: Any) -> tuple[bytes, PinOptions, dict[str, Any]]:
    """Return the content in a parsed body, its options, and the fields of its pin.

    The body is an object with content, metadata and options, or the content alone.
    """
    content, metadata, options = body, read_metadata(None), read_options(None)
    name = next((n for n in CONTENT_NAMES if isinstance(body, dict) and n in body), None)
    if name is not None:
        content = body[name]
        metadata = read_metadata(with_numbers(body.get("pinataMetadata")))
        options = read_options(with_numbers(body.get("pinataOptions")))
    elif not isinstance(body, dict | list):
        raise bad_request("The body must be a JSON object")
    about = {
        "name": metadata.name,
        "keyvalues": metadata.keyvalues,
        "type": "application/json",
    }
    return write_json(content).encode(), options, about
