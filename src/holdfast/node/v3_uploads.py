"""Uploads of the v3 API: their options, an upload in one form, and the shape of replies."""

import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.content.cid import CID
from holdfast.content.media_types import told_type
from holdfast.content.profiles import UNIXFS_V0_2015, Profile
from holdfast.content.unixfs.files import Part
from holdfast.errors import ClientError, MalformedError, UnprovenError
from holdfast.node.client_values import parse_json, read_keyvalues, read_name, with_numbers
from holdfast.node.form_upload import FormUpload
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.service import PRIVATE, PUBLIC, File, Network, Service
from holdfast.node.tables import Details
from holdfast.records import Pin
from holdfast.repository.adding import Adding

# The shape of replies.

NOT_AUTHORIZED = "Not Authorized"


def data_reply(data: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Return a successful reply."""
    return JSONResponse({"data": data}, headers=headers)


def error_reply(refusal: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """Return the reply for a `Refusal`, in the shape of the service."""
    message = NOT_AUTHORIZED if refusal.status == 401 else refusal.details
    error = {"code": refusal.status, "message": message}
    all_headers = {**(headers or {}), **refusal.headers}
    return JSONResponse({"error": error}, refusal.status, all_headers)


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
        "car": read_flag(fields.get("car", ""), "car"),
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
    if allowed is not None and not any(_covers(pattern, plain) for pattern in allowed):
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


def read_network(value: Any) -> str:
    """Return the name of a network."""
    if value not in (PUBLIC, PRIVATE):  # a tuple, because a list from JSON has no hash
        raise bad_request("network must be public or private")
    return str(value)


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


def read_flag(value: Any, what: str) -> bool:
    """Return the boolean in `value`, which may be text."""
    flag = FLAGS.get(value) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise bad_request(f"{what} must be true or false")
    return flag


def _cid_version(text: str) -> int:
    if text not in {"", "v0", "v1", "0", "1"}:
        raise bad_request("cid_version must be v0 or v1")
    return 0 if text.endswith("0") else 1


# Add a file to a network: pin its content with its details, or the root of an archive.


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
    fields: dict[str, Any] = {"id": id, "name": options.name, "keyvalues": options.keyvalues}
    if options.car:
        return _pin_archive(network, adding, part.cid, options, fields)
    fields |= {
        "size": part.dag_size,
        "files": files,
        "type": type if type == "directory" else told_type(type, options.name),
    }
    return network.pin(adding.pin, part.cid, options.details, **fields)


def _pin_archive(
    network: Network, adding: Adding, archive: CID, options: UploadOptions, fields: dict[str, Any]
) -> File:
    adding.flush()
    try:
        with network.repository.importing() as importing:
            for piece in network.repository.read(archive):
                importing.update(piece)
            if len(importing.roots) != 1:
                raise bad_request("The archive must have one root")

            def pin(_: CID, **fields: Any) -> tuple[Pin, bool]:
                return importing.pin(**fields)[0]

            return network.pin(pin, importing.roots[0], options.details, **fields)
    except (MalformedError, UnprovenError) as error:
        raise bad_request(f"The archive is not valid: {error.message}") from None
    finally:
        with suppress(ClientError, OSError):  # else a collection of garbage removes it
            adding.discard()


class V3Form(FormUpload):
    """An upload in one form.

    Args:
        service: The service of the node.
        content_type: The header of the request.
        profile: The layout, unless the client wants another one.
        grant: What a signed address allows; None for a request with a token.
        limit: The most bytes of the file.
    """

    def __init__(
        self,
        service: Service,
        content_type: str,
        *,
        profile: Profile,
        grant: Mapping[str, Any] | None,
        limit: int,
    ) -> None:
        network = None if grant is None else service.network(grant["network"])
        super().__init__(service, content_type, limit=limit, network=network)
        self._profile = profile
        self._grant = grant
        self._fields: dict[str, str] = {}

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
        if name == "network" and self.network is None:
            chosen = read_network(self._fields[name])
            self.network: Network | None = self.service.network(chosen)

    def begin_file(self, filename: str) -> None:
        """Refuse a folder and a second file, unless a signed address takes the upload."""
        if self._grant is None and ("/" in filename or self.tree.count):
            raise bad_request(
                "One file at a time: send folders to /pinning/pinFileToIPFS or a signed address"
            )

    def layout(self) -> Profile:
        """Return the layout of the fields so far."""
        version = {"cid_version": self._fields.get("cid_version", "")}
        return read_upload_options(version).profile(self._profile)

    def pin(self, files: int) -> File:
        """Pin the file, or the folder."""
        if not files:
            raise bad_request("The form has no part named file")
        top, *below = self.path.split(b"\0")
        options = read_upload_options(self._fields, self._grant)
        options = replace(options, name=options.name or top.decode())
        media_type = "directory" if below else told_type(self.type, top.decode())
        check_type(self._grant, media_type)
        network = self.service.network(options.network)
        network.check_group(options.group_id)
        _, part = self.build(network, options.profile(self._profile))
        adding, id_ = self.adding(network), str(uuid.uuid4())
        return pin_upload(network, adding, part, options, id=id_, type=media_type, files=files)
