"""The older API of the pinning service, as a dialect of the node's service."""

import json
import operator
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.content.cid import CID
from holdfast.content.media_types import told_type
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025, Profile
from holdfast.content.unixfs.directories import build_directory
from holdfast.errors import ClientError
from holdfast.node import client_values as values
from holdfast.node.api_calls import INLINE_JSON, ApiCalls, AuthorizedEndpoint, Endpoint
from holdfast.node.form_upload import FormUpload, receive_form
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.pin_jobs import PinJob
from holdfast.node.service import File, Service
from holdfast.node.settings import NodeSettings
from holdfast.node.tables import Details
from holdfast.protocol.pin_api import iso_time
from holdfast.records import Pin, same_value
from holdfast.repository import PinQuery
from holdfast.repository.ledger import DATABASE, Ledger
from holdfast.repository.pins import Stopped

# The metadata and the options of a pin, and the content in the body of ``pinJSONToIPFS``.

CONTENT_NAMES: Final = ("pinataContent", "pinContent")


@dataclass(frozen=True, slots=True)
class PinOptions:
    """The options of a pin: its layout and its group."""

    cid_version: int = 1
    wrap: bool = False
    group_id: str | None = None

    @property
    def profile(self) -> Profile:
        """The profile for the CID version."""
        return UNIXFS_V1_2025 if self.cid_version else UNIXFS_V0_2015


def read_metadata(value: Any) -> dict[str, Any]:
    """Return the name and the key-values in ``pinataMetadata``; raise a `Refusal` if invalid."""
    if value is None:
        return {"name": "", "keyvalues": {}}
    if not isinstance(value, dict):
        raise bad_request("pinataMetadata must be an object")
    name = values.read_name(value.get("name"), "The name in pinataMetadata")
    return {"name": name or "", "keyvalues": values.read_keyvalues(value.get("keyvalues"))}


def read_options(value: Any) -> PinOptions:
    """Return the value of ``pinataOptions``. Unknown members are ignored, as the service does."""
    if value is None:
        return PinOptions()
    if not isinstance(value, dict):
        raise bad_request("pinataOptions must be an object")
    if (version := value.get("cidVersion")) is None:
        version = 1
    if str(version) not in {"0", "1"} or isinstance(version, bool):
        raise bad_request("cidVersion must be 0 or 1")
    wrap = value.get("wrapWithDirectory", False)
    if not isinstance(wrap, bool | None):
        raise bad_request("wrapWithDirectory must be true or false")
    group = value.get("groupId")
    if not isinstance(group, str | None):
        raise bad_request("groupId must be a string")
    return PinOptions(int(version), bool(wrap), group or None)


def parse_time(text: str, what: str) -> int:
    """Return an ISO 8601 time in milliseconds; raise a `Refusal` if it is invalid."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise bad_request(f"{what} must be an ISO 8601 date") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def read_content(body: Any) -> tuple[bytes, PinOptions, dict[str, Any]]:
    """Return the content in a parsed body, its options, and the fields of its pin.

    The body is an object with content, metadata and options, or the content alone.
    """
    content, metadata, options = body, read_metadata(None), read_options(None)
    name = next((n for n in CONTENT_NAMES if isinstance(body, dict) and n in body), None)
    if name is not None:
        content = body[name]
        metadata = read_metadata(values.with_numbers(body.get("pinataMetadata")))
        options = read_options(values.with_numbers(body.get("pinataOptions")))
    elif not isinstance(body, dict | list):
        raise bad_request("The body must be a JSON object")
    return values.write_json(content).encode(), options, {**metadata, "type": "application/json"}


class PinningForm(FormUpload):
    """The form of ``pinFileToIPFS``: a file or a directory, its metadata and its options."""

    def __init__(self, service: Service, content_type: str, *, limit: int) -> None:
        super().__init__(service, content_type, limit=limit, network=service.public)
        self._metadata = read_metadata(None)
        self._options = PinOptions()

    def begin_field(self, name: str) -> None:
        """Refuse fields that the service does not have."""
        if name not in {"pinataMetadata", "pinataOptions", "network"}:
            raise bad_request("Unexpected field")

    def take_field(self, name: str, text: bytes) -> None:
        """Take the metadata or the options."""
        value = values.with_numbers(values.parse_json(text)) if text and name != "network" else None
        if name == "pinataMetadata":
            self._metadata = read_metadata(value)
        elif name == "pinataOptions":
            self._options = read_options(value)

    def layout(self) -> Profile:
        """Return the layout of the options so far."""
        return self._options.profile

    def pin(self, files: int) -> File:
        """Pin the file or the directory."""
        if not files:
            raise bad_request("Invalid request format.")
        options, adding = self._options, self.adding(self.service.public)
        name, part = self.build(self.service.public, options.profile)
        if options.wrap:
            part = build_directory([(name, part)], options.profile, adding.put)
        pin_name = self._metadata["name"] or name.decode()
        is_file = b"\0" not in self.path and not options.wrap
        return self.service.public.pin(
            adding.pin,
            part.cid,
            Details(options.group_id),
            name=pin_name,
            keyvalues=self._metadata["keyvalues"],
            size=part.dag_size,
            files=files,
            type=told_type(self.type, pin_name) if is_file else "directory",
        )


# Conditions on the key-values of pins, in the service's shape, matched in bounded time.
#
# Clients cannot use regular expressions: some take exponential time, and Python holds its global
# lock while it matches, so one of them would stop the whole node.

MAX_PATTERN: Final = 200
MAX_SUBJECT: Final = 1000

Check: TypeAlias = Callable[[Any], bool]


def keyvalues_matcher(conditions: Any) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that tells whether key-values meet all `conditions`.

    The conditions have the service's shape: ``{key: {value, op, secondValue}}``.
    """
    if not isinstance(conditions, dict) or len(conditions) > values.MAX_KEYVALUES:
        raise bad_request(
            f"metadata[keyvalues] must be an object with at most {values.MAX_KEYVALUES} members"
        )
    checks = [(key, _check(condition)) for key, condition in conditions.items()]

    def matches(keyvalues: Mapping[str, Any]) -> bool:
        return all(key in keyvalues and check(keyvalues[key]) for key, check in checks)

    return matches


def _check(condition: Any) -> Check:
    if not isinstance(condition, dict) or "value" not in condition:
        raise bad_request("A condition in metadata[keyvalues] needs a value and an op")
    name = condition.get("op", "eq")
    value, second = condition["value"], condition.get("secondValue")
    if name in REGULAR_EXPRESSIONS:
        raise bad_request(f"The node lacks regular expressions: use like or iLike, not {name}")
    if not isinstance(name, str) or name not in OPERATIONS:
        raise bad_request(f"Unknown op in metadata[keyvalues]; use {', '.join(OPERATIONS)}")
    for operand in (value, second):
        if isinstance(operand, dict | list):
            raise bad_request("A value in metadata[keyvalues] must be a string, number or boolean")
        if values.is_long(operand):
            raise bad_request(
                f"A value in metadata[keyvalues] may have at most {values.MAX_VALUE} characters"
            )
    check = OPERATIONS[name](value, second)

    def run(member: Any) -> bool:
        try:
            return check(member)
        except TypeError:
            return False  # text and a number cannot be compared

    return run


def _compared(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Check]:
    return lambda value, _: lambda member: bool(compare(member, value))


def _like(*, ignore_case: bool = False, expected: bool = True) -> Callable[[Any, Any], Check]:
    def operation(pattern: Any, _: Any) -> Check:
        matches = like(pattern, ignore_case=ignore_case)
        return lambda member: matches(str(member)) is expected

    return operation


REGULAR_EXPRESSIONS: Final = ("regexp", "iRegexp")
OPERATIONS: Final[Mapping[str, Callable[[Any, Any], Check]]] = {
    "eq": _compared(same_value),
    "ne": _compared(lambda member, value: not same_value(member, value)),
    "gt": _compared(operator.gt),
    "gte": _compared(operator.ge),
    "lt": _compared(operator.lt),
    "lte": _compared(operator.le),
    "between": lambda low, high: lambda member: bool(low <= member <= high),
    "notBetween": lambda low, high: lambda member: not low <= member <= high,
    "like": _like(),
    "notLike": _like(expected=False),
    "iLike": _like(ignore_case=True),
    "notILike": _like(ignore_case=True, expected=False),
}


def like(pattern: Any, *, ignore_case: bool = False) -> Callable[[str], bool]:
    """Return a function that tells whether a text matches `pattern`.

    ``%`` matches any number of characters, ``_`` matches one. The parts between the ``%`` are
    searched for in order, each as far to the left as possible. No part is searched for twice, so
    the work is at most the length of the text times that of the pattern. A text of more than
    `MAX_SUBJECT` characters does not match.
    """
    text = str(pattern)
    if len(text) > MAX_PATTERN:
        raise bad_request(
            f"A pattern in metadata[keyvalues] may have at most {MAX_PATTERN} characters"
        )
    first, *others = (
        "".join("." if character == "_" else re.escape(character) for character in part)
        for part in text.split("%")
    )
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])  # atomic: not searched for again
    end = f".*{others[-1]}" if others else ""
    expression = re.compile(first + middle + end, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
    return lambda subject: len(subject) <= MAX_SUBJECT and expression.fullmatch(subject) is not None


# The query parameters of `pinList`. The service does not have ``search``, ``sortBy``, ``sortOrder``
# and ``copies``; the page of the node uses them.

STATUSES: Final[Mapping[str, bool | None]] = {"all": None, "pinned": True, "unpinned": False}
SORTS: Final = {"date_pinned": "created", "name": "name", "size": "size", "mime_type": "type"}
# The fields of a `PinQuery`, and the parameters that set them.
TEXTS: Final = {
    "cid": "cid",
    "cid_contains": "hashContains",
    "name_contains": "metadata[name]",
    "contains": "search",
}
TIMES: Final = {
    "created_from": "pinStart",
    "created_to": "pinEnd",
    "removed_from": "unpinStart",
    "removed_to": "unpinEnd",
}
SIZES: Final = {"size_min": "pinSizeMin", "size_max": "pinSizeMax"}


def read_query(parameters: Mapping[str, str]) -> PinQuery:
    """Return the query of a list; raise a `Refusal` if a parameter is invalid."""
    # A filter that is empty, because of an empty variable say, must not select all pins.
    fields: dict[str, Any] = {
        field: values.short_text(parameters[name], name)
        for field, name in TEXTS.items()
        if name in parameters
    }
    for names, read in ((TIMES, parse_time), (SIZES, values.whole_number)):
        for field, name in names.items():
            fields[field] = values.read_parameter(parameters, name, read)
    conditions = parameters.get("metadata[keyvalues]")
    if conditions is not None:
        fields["matches"] = keyvalues_matcher(values.json_value(conditions, "metadata[keyvalues]"))
    limit = values.read_parameter(parameters, "pageLimit", values.page_size)
    return PinQuery(
        **fields,
        pinned=values.choice(parameters, "status", STATUSES, "all"),
        sort=values.choice(parameters, "sortBy", SORTS, "date_pinned"),
        descending=values.choice(parameters, "sortOrder", values.ORDERS, "DESC"),
        limit=values.DEFAULT_PAGE if limit is None else limit,
        offset=values.read_parameter(parameters, "pageOffset", values.whole_number) or 0,
    )


# Pins and jobs as the JSON of the service.

REGIONS: Final[list[dict[str, Any]]] = [
    {"regionId": "LOCAL", "currentReplicationCount": 1, "desiredReplicationCount": 1}
]


def pinned_record(file: File) -> dict[str, Any]:
    """Return the reply to a pin, with the members of all versions of the service."""
    pin = file.pin
    reply: dict[str, Any] = {
        "IpfsHash": pin.cid,
        "PinSize": pin.size,
        "Timestamp": iso_time(pin.created_ms or 0),
        "ID": pin.id,
        "Name": pin.name,
        "NumberOfFiles": pin.files,
        "MimeType": pin.type,
        "GroupId": file.details.group_id,
        "Keyvalues": dict(pin.keyvalues) or None,
    }
    return {**reply, "isDuplicate": True} if file.is_duplicate else reply


def pin_row(pin: Pin) -> dict[str, Any]:
    """Return a pin as lists have it."""
    return {
        "id": pin.id,
        "ipfs_pin_hash": pin.cid,
        "size": pin.size,
        "user_id": "local",
        "date_pinned": iso_time(pin.created_ms or 0),
        "date_unpinned": None if pin.removed_ms is None else iso_time(pin.removed_ms),
        "metadata": {"name": pin.name or None, "keyvalues": dict(pin.keyvalues) or None},
        "regions": REGIONS,
        "mime_type": pin.type,
        "number_of_files": pin.files,
    }


def job_row(job: PinJob) -> dict[str, Any]:
    """Return a job as lists have it."""
    return {
        "id": job.id,
        "ipfs_pin_hash": job.cid,
        "date_queued": iso_time(job.queued),
        "name": job.name or None,
        "status": job.status,
        "keyvalues": dict(job.keyvalues) or None,
        "host_nodes": None,
        "pin_policy": {"regions": [{"id": "LOCAL", "desiredReplicationCount": 1}], "version": 1},
    }


# Where the copies of pins are, by the ledger of a `copies` connection beside the store.


def ledger_beside(store: Path) -> tuple[Path | None, str]:
    """Return the folder of the ledger beside a store, or None, and a text that changes with it."""
    for folder in (store / "copies", store.parent / "copies"):
        state = ""
        with suppress(OSError):  # there is no ledger, or it has no write-ahead log
            for end in ("", "-wal"):
                state += f"-{folder.joinpath(DATABASE + end).stat().st_mtime_ns}"
        if state:
            return folder, state
    return None, ""


def copies_of(pins: Sequence[Pin], folder: Path | None) -> list[dict[str, Any]]:
    """Return the member ``copies`` of each pin: the state at each place, or nothing."""
    places: dict[bytes, dict[str, str]] = {}
    if folder is not None and pins:
        # The list is shown without a ledger that cannot be read.
        with suppress(ClientError, OSError), closing(Ledger(folder)) as ledger:
            rows = ledger.rows(PinQuery(cids=tuple(pin.cid for pin in pins)))
            places = {CID.parse(row.pin.cid).key: row.places for row in rows}
    keys = [CID.parse(pin.cid).key for pin in pins]
    return [{"copies": places[key]} if key in places else {} for key in keys]


WELCOME = "Congratulations! You are communicating with the Pinata API!"
# What the service has or had and the node lacks, by path.
LACKING = {
    "/pinning/addHashToPinQueue": "pinByHash instead of this call",
    "/pinning/hashPinPolicy": "no regions: it keeps each pin once",
    "/pinning/userPinPolicy": "no regions: it keeps each pin once",
    "/users/{path:path}": "no keys: its tokens are set where it is started",
    "/groups": "its groups under /v3/groups",
    "/groups/{path:path}": "its groups under /v3/groups",
}


class PinningCalls:
    """The calls of the older API."""

    def __init__(self, service: Service, calls: ApiCalls, settings: NodeSettings) -> None:
        self._service = service
        self._calls = calls
        self._settings = settings

    def routes(self) -> list[BaseRoute]:
        """Return the routes. Those of ``/data`` exist under ``/v3`` too, for some clients."""
        endpoints: list[tuple[str, str, Endpoint, str | None]] = [
            ("POST", "/pinning/pinJSONToIPFS", self.pin_json, "pinJSONToIPFS"),
            ("POST", "/pinning/pinFileToIPFS", self.pin_file, "pinFileToIPFS"),
            ("POST", "/pinning/pinByHash", self.pin_by_hash, "pinByHash"),
            ("GET", "/pinning/pinJobs", self.pin_jobs, "pinJobs"),
            ("PUT", "/pinning/hashMetadata", self.hash_metadata, "hashMetadata"),
            ("DELETE", "/pinning/unpin/{cid:path}", self.unpin, "unpin"),
        ]
        for data in ("/data", "/v3/data"):
            endpoints += [
                ("GET", f"{data}/testAuthentication", self.greet, None),
                ("GET", f"{data}/pinList", self.pin_list, "pinList"),
                ("GET", f"{data}/userPinnedDataTotal", self.totals, "userPinnedDataTotal"),
            ]
        return [
            *self._calls.routes(endpoints),
            *(Route(path, AuthorizedEndpoint(_lacking(text))) for path, text in LACKING.items()),
        ]

    async def greet(self, _: Request) -> Response:
        """Reply with the service's greeting, which needs a token and no scope."""
        return JSONResponse({"message": WELCOME})

    async def pin_json(self, request: Request) -> Response:
        """Pin JSON: an object with content, metadata and options, or the content alone."""
        with self._calls.bodies.reading(request, self._settings.max_json) as body:
            text = await body.read()
            if len(text) <= INLINE_JSON:
                file = await self._store(*read_content(values.parse_json(text)))
            else:
                file = await self._calls.bodies.on_thread(
                    body, text, lambda value: self._add(*read_content(value))
                )
        return JSONResponse(pinned_record(file))

    async def _store(self, content: bytes, options: PinOptions, fields: dict[str, Any]) -> File:
        if options.group_id is not None:
            return await run_in_threadpool(self._add, content, options, fields)
        pin, existed = await self._service.stores.add(content, options.profile, **fields)
        public = self._service.public
        if not existed:
            return File(pin, Details(), public.name)
        return await run_in_threadpool(public.file, pin, is_duplicate=True)

    def _add(self, content: bytes, options: PinOptions, fields: dict[str, Any]) -> File:
        details = Details(options.group_id)
        return self._service.public.add(content, options.profile, details, **fields)

    async def pin_file(self, request: Request) -> Response:
        """Pin a file or a directory from a form."""
        limit = self._settings.max_upload
        form = PinningForm(self._service, request.headers.get("content-type", ""), limit=limit)
        file = await receive_form(form, request, self._calls, limit=limit)
        return JSONResponse(pinned_record(file))

    async def pin_by_hash(self, request: Request) -> Response:
        """Start a job that pins a CID."""
        body = await self._calls.bodies.json_object(request)
        job = PinJob(
            cid=str(values.read_cid(body.get("hashToPin"))),
            **read_metadata(body.get("pinataMetadata")),
            group_id=read_options(body.get("pinataOptions")).group_id,
        )
        await run_in_threadpool(self._service.start_job, job)
        reply = {"id": job.id, "ipfsHash": job.cid, "status": job.status, "name": job.name or None}
        return JSONResponse(reply)

    async def pin_jobs(self, request: Request) -> Response:
        """List the jobs that are under way or have failed."""
        query = request.query_params
        status, cid, order = map(query.get, ("status", "ipfs_pin_hash", "sort"))
        jobs = self._service.jobs.find(status=status, cid=cid, order=order)
        limit = values.page_size(query.get("limit", "5"), "limit")
        offset = values.whole_number(query.get("offset", "0"), "offset")
        rows = [job_row(job) for job in jobs[offset : offset + limit]]
        return JSONResponse({"count": len(jobs), "rows": rows})

    async def hash_metadata(self, request: Request) -> Response:
        """Change the name or the key-values of a pin; a key with the value null is removed."""
        body = await self._calls.bodies.json_object(request)
        cid = values.read_cid(body.get("ipfsPinHash"))
        metadata = read_metadata({key: body.get(key) for key in ("name", "keyvalues")})
        name = metadata["name"] if body.get("name") is not None else None
        public = self._service.public
        if await run_in_threadpool(public.change, cid, name, metadata["keyvalues"]) is None:
            raise _not_pinned(str(body["ipfsPinHash"]))
        return PlainTextResponse("OK")

    async def unpin(self, request: Request) -> Response:
        """Remove a pin."""
        text = request.path_params["cid"]
        cid = values.read_cid(text)

        def remove() -> bool:
            pin = self._service.public.repository.find_pin(cid)
            return pin is not None and self._service.public.remove(pin)

        if not await run_in_threadpool(remove):
            raise _not_pinned(text)
        return PlainTextResponse("OK")

    async def pin_list(self, request: Request) -> Response:
        """List one page of the pins that match the service's filters.

        The ETag is the state of the store, read before the pins. So a client that asks again learns
        cheaply that nothing has changed. Groups are not part of that state.
        """
        query = read_query(request.query_params)
        counted = request.query_params.get("includeCount", "true").lower() != "false"
        group = request.query_params.get("groupId")
        etag = request.headers.get("if-none-match")
        with_copies = request.query_params.get("copies") == "true"
        public = self._service.public

        def find(stopped: Stopped) -> tuple[str, list[dict[str, Any]] | None, int | None]:
            folder, ledger = ledger_beside(public.repository.path) if with_copies else (None, "")
            state = "" if group else f'"{public.repository.state()}{ledger}"'
            if state and etag == state:
                return state, None, None
            ids = json.dumps(public.tables.ids_in_group(group)) if group else None
            pins, count = public.list(replace(query, ids=ids), stopped, counted=counted)
            copies = copies_of(pins, folder)
            rows = [pin_row(pin) | places for pin, places in zip(pins, copies, strict=True)]
            return state, rows, count

        state, rows, count = await self._calls.queries.run(request, find)
        headers = {"ETag": state} if state else {}
        if rows is None:
            return Response(status_code=304, headers=headers)
        reply: dict[str, Any] = {} if count is None else {"count": count}
        return JSONResponse({**reply, "rows": rows}, headers=headers)

    async def totals(self, request: Request) -> Response:
        """Reply with the number and the total size of the pins; with `disk`, its space too."""
        repository = self._service.public.repository
        pins, size = await self._calls.queries.run(request, repository.totals)
        reply = {
            "pin_count": pins,
            "pin_size_total": size,
            "pin_size_with_replications_total": size,
        }
        if request.query_params.get("disk") == "true":
            space = await run_in_threadpool(shutil.disk_usage, repository.path)
            reply |= {"disk_total": space.total, "disk_free": space.free}
        return JSONResponse(reply)


def _lacking(text: str) -> Endpoint:
    async def refuse(_: Request) -> Response:
        raise Refusal(501, f"The local node has {text}", reason="NOT_IMPLEMENTED")

    return refuse


def _not_pinned(cid: str) -> Refusal:
    text = f"The current user has not pinned the cid: {cid}"
    return Refusal(400, text, reason="CURRENT_USER_HAS_NOT_PINNED_CID")
