"""Uploads of the v3 API: their options, the shape of replies, and an upload in one form."""

import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import IO, Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from holdfast.content.cid import CID
from holdfast.content.media_types import told_type
from holdfast.content.profiles import UNIXFS_V0_2015, Profile
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import Part
from holdfast.errors import ClientError, MalformedError, UnprovenError
from holdfast.node.api_calls import Authorization, AuthorizedEndpoint, Endpoint
from holdfast.node.client_values import MAX_NAME, parse_json, read_keyvalues, with_numbers
from holdfast.node.form_upload import MAX_SMALL, Entries, FormParser, UploadTree
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.service import PRIVATE, PUBLIC, File, Network, Networks
from holdfast.node.tables import Details
from holdfast.repository.adding import Adding
from holdfast.repository.file_adding import FileAdding

# What all calls of the v3 API share: who may make them, and the shape of their replies.

NOT_AUTHORIZED = "Not Authorized"


def v3_call(
    endpoint: Endpoint, authorization: Authorization | None = None, scope: str | None = None
) -> ASGIApp:
    """Return an application for `endpoint` whose errors have the shape of the service's."""
    return AuthorizedEndpoint(endpoint, authorization, scope, error_reply=error_reply)


def data_reply(data: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Return a successful reply."""
    return JSONResponse({"data": data}, headers=headers)


def error_reply(refusal: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """Return the reply for a `Refusal`, in the shape of the service."""
    message = NOT_AUTHORIZED if refusal.status == 401 else refusal.details
    error = {"code": refusal.status, "message": message}
    return JSONResponse(
        {"error": error}, refusal.status, headers={**(headers or {}), **refusal.headers}
    )


def base_url(request: Request) -> str:
    """Return the URL under which the client reaches the node, for addresses in replies."""
    scheme = request.headers.get("x-forwarded-proto", "")  # of a proxy with TLS
    origin = f"{'https' if scheme == 'https' else 'http'}://{request.headers.get('host', '')}"
    return origin + quote(request.scope.get("root_path", ""))


# What a client says about an upload, in a form, in the metadata of tus, or in a signed address.

FIELDS: Final = frozenset(
    {"network", "name", "group_id", "keyvalues", "streamable", "car", "cid_version", "expires_at"}
)
CID_VERSION: Final = "X-Upload-Option-Cid-Version"  # in the query, besides the metadata of tus
FLAGS: Final = {"": False, "false": False, "true": True}
LATEST: Final = 253_402_300_799  # seconds: the end of the year 9999


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOptions:
    """How a file is stored, and what is kept about it. `expires_at` is in seconds."""

    network: str = PRIVATE  # as the service documents it
    name: str = ""
    group_id: str | None = None
    keyvalues: Mapping[str, Any] = field(default_factory=dict)
    car: bool = False
    cid_version: int = 1
    expires_at: int | None = None

    @property
    def details(self) -> Details:
        """The details of the file besides its pin."""
        return Details(self.group_id, self.expires_at)

    def profile(self, default: Profile) -> Profile:
        """Return the layout: `default` unless the client wants CIDs of version 0."""
        return default if self.cid_version else UNIXFS_V0_2015


def read_upload_options(
    fields: Mapping[str, str], grant: Mapping[str, Any] | None = None
) -> UploadOptions:
    """Return the options in `fields`; what a signed address says (`grant`) replaces them."""
    keyvalues = fields.get("keyvalues", "").strip()
    options: dict[str, Any] = {
        "network": read_network(fields.get("network") or PRIVATE),
        "name": read_name(fields.get("name")) or "",
        "group_id": fields.get("group_id") or None,
        "keyvalues": unwrapped(with_numbers(parse_json(keyvalues.encode())) if keyvalues else None),
        "car": read_flag("car", fields.get("car", "")),
        "cid_version": _cid_version(fields.get("cid_version", "")),
        "expires_at": read_expiry(fields.get("expires_at") or None),
    }
    granted = ("network", "name", "group_id", "keyvalues")
    options |= {key: grant[key] for key in granted if key in grant} if grant else {}
    if options["car"] and options["network"] != PUBLIC:
        raise bad_request("car is for the public network only")
    return UploadOptions(**options)


def check_type(grant: Mapping[str, Any] | None, media_type: str) -> None:
    """Raise a `Refusal` unless a signed address allows files of `media_type`.

    A wildcard such as ``image/*`` does not cover ``directory``.
    """
    allowed = grant.get("allow_mime_types") if grant else None
    plain = media_type.partition(";")[0].strip().lower()
    if allowed is not None and not any(_covers(each, plain) for each in allowed):
        raise bad_request(
            "Presigned URL does not grant permissions to upload detected MIME type: "
            f"{plain or 'unknown'}"
        )


def _covers(allowed: str, media_type: str) -> bool:
    kind, _, rest = allowed.partition("/")
    if rest != "*":
        return allowed == media_type
    return "/" in media_type and kind in {"*", media_type.partition("/")[0]}


def size_limit(grant: Mapping[str, Any] | None, limit: int) -> int:
    """Return the most bytes that an upload may have."""
    return min(limit, grant["max_file_size"]) if grant and "max_file_size" in grant else limit


def too_large(limit: int) -> Refusal:
    """Return the `Refusal` for an upload of more than `limit` bytes."""
    return Refusal(413, f"The file is larger than the {limit} bytes that are allowed")


def read_network(value: Any) -> str:
    """Return the name of a network."""
    if value not in (PUBLIC, PRIVATE):  # a tuple, because a list from JSON has no hash
        raise bad_request("network must be public or private")
    return str(value)


def read_name(value: Any) -> str | None:
    """Return the name of a file or a group."""
    if not isinstance(value, str | None) or len(value or "") > MAX_NAME:
        raise bad_request(f"name must be a string of up to {MAX_NAME} characters")
    return value


def unwrapped(value: Any) -> dict[str, Any]:
    """Return key-values, which the documentation of the service also shows wrapped once more."""
    if isinstance(value, dict) and isinstance(value.get("keyvalues"), dict) and len(value) == 1:
        value = value["keyvalues"]
    return read_keyvalues(value)


def read_expiry(value: Any) -> int | None:
    """Return a time in the future, in seconds; None if there is none."""
    if value is None:
        return None
    text = str(value)
    if not text.isdecimal() or not time.time() < int(text[:15]) <= LATEST:
        raise bad_request("expires_at must be a time in the future, in seconds since 1970")
    return int(text)


def read_flag(name: str, value: Any) -> bool:
    """Return the boolean in `value`, which may be text."""
    given = FLAGS.get(value) if isinstance(value, str) else value
    if not isinstance(given, bool):
        raise bad_request(f"{name} must be true or false")
    return given


def _cid_version(text: str) -> int:
    if text not in {"", "v0", "v1", "0", "1"}:
        raise bad_request("cid_version must be v0 or v1")
    return 0 if text.endswith("0") else 1


# Add a file to a network: pin its content with its details, or the roots of an archive.


def pin_upload(
    network: Network,
    adding: Adding,
    part: Part,
    options: UploadOptions,
    *,
    id: str,
    type: str,
    files: int = 1,
) -> File:
    """Pin what `adding` has as the file `id`; return the first file if the content has one.

    The content of an archive (CAR) is what is in it: `part` itself is then removed again.
    """
    about: dict[str, Any] = {"id": id, "name": options.name, "keyvalues": options.keyvalues}
    if options.car:
        return _pin_archive(network, adding, part.cid, options, about)
    about |= {
        "size": part.dag_size,
        "files": files,
        "type": type if type == "directory" else told_type(type, options.name),
    }
    with network.described(id, part.cid, options.details):
        pin, existed = adding.pin(part.cid, **about)
    return _pinned_file(network, pin.cid, id, existed=existed)


def _pin_archive(
    network: Network, adding: Adding, archive: CID, options: UploadOptions, about: dict[str, Any]
) -> File:
    adding.flush()
    try:
        with network.repository.importing() as importing:
            for piece in network.repository.read(archive):
                importing.update(piece)
            if len(importing.roots) != 1:
                raise bad_request("The archive must have one root")
            (root,) = importing.roots
            with network.described(about["id"], root, options.details):
                ((pin, existed),) = importing.pin(**about)
    except (MalformedError, UnprovenError) as error:
        raise bad_request(f"The archive is not valid: {error.message}") from None
    finally:
        with suppress(ClientError, OSError):  # else a collection of garbage removes it
            adding.discard()
    return _pinned_file(network, pin.cid, about["id"], existed=existed)


def _pinned_file(network: Network, cid: str, id: str, *, existed: bool) -> File:
    """Return the file of `cid`. If it existed, remove the details that were set for `id`."""
    if existed:
        network.details.put(id, cid, Details())
    pin = network.repository.find_pin(CID.parse(cid))
    if pin is None:  # removed in between
        raise bad_request("The file was deleted while it was uploaded")
    return network.file(pin, is_duplicate=existed)


# An upload in one form. The file may come before the field that names its network.

SPOOLED: Final = 512 << 10  # bytes of a file that wait in memory; more wait in a temporary file
PIECE: Final = 256 << 10
WAITING: Final = Part(CID.of_raw(b""), 0, 0)  # stands for the spooled file in the tree


class V3FormUpload(FormParser):
    """Parses the pieces of a form, and pins its file in `finish`.

    A file whose network is known is added while it arrives. Other files are spooled first: private
    content must not be in the public store, not even until its form is complete.

    Args:
        networks: The networks of the node.
        content_type: The header of the request.
        profile: The layout, unless the client wants another one.
        grant: What a signed address allows; None for a request with a token.
        limit: The most bytes of the file.
    """

    def __init__(
        self,
        networks: Networks,
        content_type: str,
        *,
        profile: Profile,
        grant: Mapping[str, Any] | None,
        limit: int,
    ) -> None:
        super().__init__(content_type)
        self._networks = networks
        self._profile = profile
        self._grant = grant
        self._limit = limit
        self._fields: dict[str, str] = {}
        self._options = UploadOptions()
        self._network: Network | None = None
        self._added: Adding | None = None
        self._tree = UploadTree()
        self._path = b""  # of the current file
        self._type = ""
        self._size = 0
        self._file: FileAdding | None = None
        self._spool: IO[bytes] | None = None
        if grant is not None:
            self._network = networks.named(grant["network"])

    @property
    def held(self) -> int:
        """The approximate bytes of memory that the upload holds between two pieces."""
        leaf = 0 if self._file is None else self._file.held
        small = 0 if self._added is None else self._added.held
        spooled = 0 if self._spool is None else min(self._size, SPOOLED)
        return super().held + leaf + small + spooled + self._tree.held

    def begin_field(self, name: str) -> None:
        """Refuse fields that the service does not have, or that come twice."""
        if name not in FIELDS or name in self._fields:
            raise bad_request(f"Unexpected field {name[:40]}")

    def take_field(self, name: str, text: bytes) -> None:
        """Take what is said about the file."""
        try:
            self._fields[name] = text.decode()
        except UnicodeDecodeError:
            raise bad_request(f"The field {name} is not UTF-8 text") from None
        if name == "network" and self._network is None:
            self._network = self._networks.named(read_network(self._fields[name]))

    def begin_file(self, filename: str, media_type: str) -> None:
        """Begin a file, in the layout that is known so far."""
        if self._grant is None and ("/" in filename or self._tree.count):
            raise bad_request(
                "One file at a time: send folders to /pinning/pinFileToIPFS or a signed address"
            )
        self._path = self._tree.check(filename)
        self._type = media_type
        if self._network is None:
            folder = str(self._networks.public.repository.path)
            self._spool = tempfile.SpooledTemporaryFile(SPOOLED, dir=folder)  # noqa: SIM115
        else:
            version = {"cid_version": self._fields.get("cid_version", "")}
            layout = read_upload_options(version).profile(self._profile)
            self._file = FileAdding(self._adding(), layout)

    def _adding(self) -> Adding:
        if self._added is None:
            network = self._network or self._networks.named(self._options.network)
            self._added = network.repository.adding()
            self._added.max_held = MAX_SMALL
        return self._added

    def take_bytes(self, data: bytes) -> None:
        """Add the next bytes of the file."""
        self._size += len(data)
        if self._size > self._limit:
            raise too_large(self._limit)
        if self._file is not None:
            self._file.update(data)
        elif self._spool is not None:
            self._spool.write(data)

    def end_file(self) -> None:
        """Put the file into the tree; a spooled one without its content."""
        self._tree.add(self._path, WAITING if self._file is None else self._file.finish())
        self._file = None

    def finish(self) -> File:
        """Pin what was uploaded; return the file."""
        self.end_form()
        files = self._tree.count
        if not files:
            raise bad_request("The form has no part named file")
        top, *below = self._path.split(b"\0")
        options = read_upload_options(self._fields, self._grant)
        self._options = options = replace(options, name=options.name or top.decode())
        media_type = "directory" if below else told_type(self._type, top.decode())
        check_type(self._grant, media_type)
        network = self._networks.named(options.network)
        network.check_group(options.group_id)
        _, part = self._tree.build(self._in_layout, self._directory)
        id_ = str(uuid.uuid4())
        adding = self._adding()
        return pin_upload(network, adding, part, options, id=id_, type=media_type, files=files)

    def _directory(self, entries: Entries) -> Part:
        return build_directory(entries, self._options.profile(self._profile), self._adding().put)

    def _in_layout(self, part: Part) -> Part:
        """Return the file in the layout of the options, which may have come after the file."""
        file = FileAdding(self._adding(), self._options.profile(self._profile))
        if self._spool is not None:
            self._spool.seek(0)
            while piece := self._spool.read(PIECE):
                file.update(piece)
            return file.finish()
        if part.cid.version == self._options.cid_version:
            return part
        self._adding().flush()
        for piece in self._networks.named(self._options.network).repository.read(part.cid):
            file.update(piece)
        return file.finish()

    def close(self) -> None:
        """End the upload and free its memory. Garbage collection removes what was not pinned."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        if self._added is not None:
            self._added.close()
        self._field.clear()
        self._tree = UploadTree()
