"""What a client says about an upload, in a form, in the metadata of tus, or in a signed address."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.content.cid import CID
from holdfast.content.media_types import told_type
from holdfast.content.profiles import UNIXFS_V0_2015, Profile
from holdfast.content.unixfs.files import Part
from holdfast.errors import ClientError, MalformedError, UnprovenError
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.pinning_api.json_values import parse_json, with_numbers
from holdfast.node.pinning_api.metadata import MAX_NAME, read_keyvalues
from holdfast.node.v3_api.file_details import Details
from holdfast.node.v3_api.networks import PRIVATE, PUBLIC, File, Network
from holdfast.repository.adding import Adding

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
