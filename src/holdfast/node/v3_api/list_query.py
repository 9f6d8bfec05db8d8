"""Read the query parameters of lists, and make the tokens of their pages."""

import base64
import json
import re
from dataclasses import replace
from typing import Final

from starlette.datastructures import QueryParams

from holdfast.node.http_server.refusals import bad_request
from holdfast.node.pinning_api.metadata import MAX_KEYVALUES
from holdfast.node.pinning_api.pin_list_query import MAX_TEXT, whole_number
from holdfast.node.v3_api.networks import Network
from holdfast.records import Pin, PinFilter
from holdfast.repository import PinQuery

DEFAULT_PAGE: Final = 10
MAX_PAGE: Final = 1000
# Both spellings: the official SDK sends the first, its documentation has the second.
KEYVALUE: Final = re.compile(r"(?:keyvalues|metadata)\[(.*)\]", re.DOTALL)
NO_GROUP: Final = "null"


def read_file_query(parameters: QueryParams, network: Network) -> PinQuery:
    """Return the query for one page of files, and one file more. Use it on a worker thread."""
    wanted = {}
    for key, value in parameters.multi_items():
        if len(value) > MAX_TEXT:
            raise bad_request(f"{key[:40]} may have at most {MAX_TEXT} characters")
        if match := KEYVALUE.fullmatch(key):
            wanted[match[1]] = value
    if len(wanted) > MAX_KEYVALUES:
        raise bad_request(f"A query may have at most {MAX_KEYVALUES} key-values")
    order = parameters.get("order", "DESC").upper()
    if order not in {"ASC", "DESC"}:
        raise bad_request("order must be ASC or DESC")
    query = PinQuery(
        cid=parameters.get("cid") or None,
        name_contains=parameters.get("name") or None,
        type=parameters.get("mimeType") or None,
        after=_read_token(parameters),
        matches=PinFilter(keyvalues=wanted).fits if wanted else None,
        descending=order == "DESC",
        limit=page_limit(parameters) + 1,
    )
    group = parameters.get("group")
    if parameters.get("cidPending") == "true":
        return replace(query, ids="[]")  # the CID of every file here is known
    if group == NO_GROUP:
        return replace(query, other_ids=json.dumps(network.details.ids_in_group(None)))
    if group:
        return replace(query, ids=json.dumps(network.details.ids_in_group(group)))
    return query


def page_limit(parameters: QueryParams) -> int:
    """Return how many items a page has."""
    text = parameters.get("limit") or str(DEFAULT_PAGE)
    limit = whole_number(text, "limit", most=MAX_PAGE)
    if not limit:
        raise bad_request("limit must be 1 or more")
    return limit


def page_token(pin: Pin) -> str:
    """Return the token of the page after `pin`."""
    return base64.urlsafe_b64encode(f"{pin.created}.{pin.id}".encode()).decode()


def _read_token(parameters: QueryParams) -> tuple[int, str] | None:
    token = parameters.get("pageToken")
    if not token:
        return None
    try:
        created, _, id_ = base64.urlsafe_b64decode(token).decode().partition(".")
    except ValueError:
        created, id_ = "", ""
    if not created.isdecimal() or len(created) > 15 or not id_:
        raise bad_request("pageToken is not one that the node made")
    return int(created), id_
