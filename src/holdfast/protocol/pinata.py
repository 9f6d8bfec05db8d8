"""The service's v3 API: its requests, and how their replies are read."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, cast
from urllib.parse import quote, urlencode, urlsplit

from holdfast.config import ClientConfig, checks
from holdfast.config.checks import address_error
from holdfast.config.client_config import check_secure, provider_options
from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import ConfigError, NotFoundError, UnsupportedError
from holdfast.hints import advise
from holdfast.protocol import json_text, pin_api
from holdfast.protocol.gateway import CAR_TYPE
from holdfast.protocol.http import BytesBody, Reply, Request, SignedURL, origin
from holdfast.protocol.multipart import FileForm, FileSource, FormFile, FormFolder, OnSent
from holdfast.protocol.pin_api import OTHER, Exchange, KeyValues, PagedList, ServiceAPI
from holdfast.protocol.pinning import JOBS, PinningAPI, find_job, read_job, state_of
from holdfast.protocol.status_errors import provider_error
from holdfast.protocol.tus import GONE, TusAPI
from holdfast.records import Added, Pin, PinFilter, PinInfo, value_text

Network = Literal["public", "private"]
UPLOAD_URL: Final = "https://uploads.pinata.cloud/v3"
VERSION: Final = "/v3"
LARGEST_FORM: Final = 90 << 20  # bytes; the service refuses forms over 100 MB, its SDK stops here
JSON_NAME: Final = "data.json"  # the file name of JSON, as the service's SDK sends it
OLDER_CALL: Final = (
    "folders are sent by the older call pinFileToIPFS: "
    "use a key that has this permission too, or an admin key"
)
PENDING: Final = "pending"  # in place of the CID while the service still computes it
PIECE_SIZE: Final = 48 << 20  # bytes of a request: within all limits that the service publishes
LARGEST_FILE: Final = 25_000_000_000  # bytes
CID_VERSION: Final = "X-Upload-Option-Cid-Version"  # the service's SDK sends it in the query, too
EXPIRES_AT: Final = "expires_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinataOptions:
    """What only this provider needs.

    Attributes:
        network: Where files are stored and listed.
        group: The id of the group to which new files are added; None for none.
        expires: The seconds after which the service deletes new files; None for never.
        upload_url: The address for uploads, with the version.
        spool: Whether a source that can be read only once is first written to a temporary file.
    """

    network: Network
    group: str | None
    expires: int | None
    upload_url: str
    spool: bool

    @classmethod
    def of(cls, config: ClientConfig) -> "PinataOptions":
        """Return the options of `config`; raise ConfigError for a mistake. No value is shown."""
        options = provider_options(config, *cls.__slots__)
        network = options.get("network", "public")
        if network not in ("public", "private"):
            raise ConfigError("provider_options: network must be 'public' or 'private'")
        if network == "private" and config.gateway_url is None:
            raise ConfigError(
                "gateway_url is missing: private files are read through your own gateway, "
                "such as https://example.mypinata.cloud"
            )
        expires = options.get("expires")
        if expires is not None:
            checks.whole("provider_options: expires", expires)
        return cls(
            network=cast("Network", network),
            group=_group_id(options.get("group")),
            expires=expires,
            upload_url=_upload_url(options.get("upload_url"), config),
            spool=checks.flag("provider_options: spool", options.get("spool", True)),
        )


def _group_id(group: Any) -> str | None:
    if group is not None and not (isinstance(group, str) and group.strip()):
        raise ConfigError("provider_options: group must be the id of a group, as text")
    return group


def _upload_url(address: Any, config: ClientConfig) -> str:
    """Return the address for uploads: the one that is given, else one that fits `pin_api_url`."""
    if address is not None:
        url = checks.base_url("provider_options: upload_url", address)
        if "?" in url or "@" in url:
            raise ConfigError("provider_options: upload_url must hold no user name and no query")
        check_secure("provider_options: upload_url", url, config)
        return url
    return UPLOAD_URL if config.pin_api_url is None else api_root(config) + VERSION


def api_root(config: ClientConfig) -> str:
    """Return the address of the API without its version, which users may give or leave out."""
    return config.api_url.removesuffix(VERSION)


class PinataList(PagedList):
    """The files of one network: the cursor is the page's token.

    The service compares key-values for equality and knows no times, and it does not say whether it
    finds parts of names.
    """

    api: "PinataAPI"

    def request(self, count: int, cursor: str | None) -> Request:
        """Return the request for `count` files from `cursor` on."""
        query = {"limit": str(count), "order": "DESC"}
        if (cid := self.cid_at(cursor)) is not None:
            query["cid"] = cid
        for key, value in (self.pin_filter.keyvalues or {}).items():
            query[f"keyvalues[{key}]"] = value_text(value)
        if token := (cursor or "").removeprefix(OTHER):
            query["pageToken"] = token
        path = f"/files/{self.api.options.network}?{urlencode(query)}"
        return self.api.request("GET", path, max_reply=pin_api.MAX_PAGE)

    def read(self, reply: Reply, _count: int, cursor: str | None) -> tuple[list[Pin], str | None]:
        """Return the files of a page whose CID is known, and the cursor of the next page."""
        data = self.api.read_data(reply)
        with self.api.reading(reply, "the provider's reply is not a list of files (data.files)"):
            pins = [read_pin(row) for row in data["files"] if row["cid"] != PENDING]
            token = data.get("next_page_token") or ""
            if not isinstance(data["files"], list) or not isinstance(token, str):
                raise TypeError("files are a list, and a token is text")
        if not (pins or token or cursor) and pin_api.other_version(self.pin_filter.cid) is not None:
            return pins, OTHER
        since = self.pin_filter.since
        is_older = since is not None and pins and (pins[-1].created_ms or 0) < since
        if not token or is_older:
            return pins, None
        return pins, (OTHER if (cursor or "").startswith(OTHER) else "") + token


def read_pin(row: dict[str, Any]) -> Pin:
    """Return the pin of a file of the v3 API; raise a built-in error for anything else."""
    return pin_api.read_file(row, row["cid"], row, row["created_at"])


class PinataAPI(ServiceAPI):
    """The v3 API: a `PinAPI`.

    Args:
        root: The address of the API, without the version.
        token: The credential, which is sent there and to the address for uploads.
        cid_version: The version of new CIDs.
        options: The network, the group, when files expire, and the address for uploads.
        clock: Returns the time in milliseconds.
    """

    list_type: ClassVar[type[PagedList]] = PinataList

    def __init__(
        self,
        root: str,
        token: Secret,
        *,
        cid_version: int,
        options: PinataOptions,
        clock: Callable[[], int],
    ) -> None:
        super().__init__(root + VERSION, token)
        self.cid_version = cid_version
        self.options = options
        self._clock = clock
        self._older = PinningAPI(root, token, cid_version, options.group, OLDER_CALL)

    # Uploads

    def add_json(self, text: bytes, info: PinInfo) -> Exchange[Added]:
        """Store the JSON `text` as a file of exactly these bytes."""
        file = FormFile(JSON_NAME, pin_api.JSON_TYPE["Content-Type"], BytesBody(text))
        return (yield from self._add([file], info, whole=True))

    def add_files(
        self, files: Iterable[FormFile], info: PinInfo, on_sent: OnSent, *, whole: bool = False
    ) -> Exchange[Added]:
        """Store a file; or several as a directory, by the older call, which v3 still needs."""
        if isinstance(files, FormFolder):
            return (yield from self._older.add_files(files, info, on_sent))
        return (yield from self._add(files, info, tell=on_sent, whole=whole))

    def add_archive(self, archive: FileSource, info: PinInfo) -> Exchange[None]:
        """Send an archive. The service lists its root some time later."""
        fields = {**self.upload_fields(info), "car": "true"}
        form = FileForm([FormFile(info.name, CAR_TYPE, archive)], fields=fields)
        url = self.options.upload_url
        self.read_data((yield self.request("POST", "/files", base_url=url, **form.sending())))

    def upload_fields(self, info: PinInfo) -> dict[str, str]:
        """Return the fields that are sent with a file."""
        fields = {"network": self.options.network, "cid_version": f"v{self.cid_version}"}
        if info.name:
            fields["name"] = info.name
        if info.keyvalues:
            fields["keyvalues"] = json_text.to_text(pin_api.as_texts(info.keyvalues))
        if self.options.group is not None:
            fields["group_id"] = self.options.group
        if self.options.expires is not None:
            fields["expires_at"] = str(self._seconds() + self.options.expires)
        return fields

    def _add(self, files: Iterable[FormFile], info: PinInfo, **how: Any) -> Exchange[Added]:
        """Send a form. Known content keeps its name, unless the user gave one."""
        form = FileForm(files, fields=self.upload_fields(info))
        url = self.options.upload_url
        reply = yield self.request("POST", "/files", base_url=url, **form.sending(**how))
        added = self._read_added(reply)
        yield from self.rename_known(added, info)
        return replace(added, duplicate=None) if added.duplicate and reply.reply_lost else added

    def rename_known(self, added: Added, info: PinInfo) -> Exchange[None]:
        """Change the name and key-values of known content, if the user gave some."""
        if added.duplicate and info.is_explicit and added.pin_id is not None:
            name = info.name if info.given else None
            yield from self._change(added.pin_id, name, info.keyvalues)

    def _read_added(self, reply: Reply) -> Added:
        data = self.read_data(reply)
        text = str(data.get("cid"))
        with self.reading(reply, "the provider's reply names no file (data.cid, data.id)"):
            cid = Reference(text, CID.parse(text))  # so that it is parsed only once
            pin_id = pin_api.read_id(data.get("id"))
        # The service sends is_duplicate only where it is true.
        return Added(cid=cid, duplicate=data.get("is_duplicate") is True, pin_id=pin_id)

    # Pins

    def update(self, cid: str, name: str | None, keyvalues: KeyValues | None) -> Exchange[Pin]:
        """Change the name, the key-values or both of the file with `cid`."""
        pins = yield from self.find(cid)
        if not pins:
            raise NotFoundError(f"{cid} is not pinned: upload it, or pin it by its CID")
        return (yield from self._change(pins[0].id, name, keyvalues))

    def _change(self, pin_id: str, name: str | None, keyvalues: KeyValues | None) -> Exchange[Pin]:
        """Change one file. The service adds key-values to those it has; null removes one."""
        body = pin_api.members(name=name, keyvalues=pin_api.as_texts(keyvalues or {}) or None)
        reply = yield self.request("PUT", self.file_path(pin_id), json=body)
        data = self.read_data(reply)
        with self.reading(reply, "the provider's reply is not a file (data)"):
            return read_pin(data)

    def pin(self, cid: str, info: PinInfo) -> Exchange[Pin]:
        """Pin content that exists elsewhere, unless it is pinned already."""
        pins = yield from self.find(cid)
        if not pins:
            return (yield from self._start_job(cid, info))
        if not info.is_explicit:
            return pins[0]
        name = info.name if info.given else None
        return (yield from self._change(pins[0].id, name, info.keyvalues))

    def _start_job(self, cid: str, info: PinInfo) -> Exchange[Pin]:
        """Let the service fetch and pin `cid`."""
        if self.options.network == "private":
            raise UnsupportedError(
                "PinataProvider pins by CID in the public network only; download the content "
                "and upload it here"
            )
        body = pin_api.members(
            cid=str(cid),
            name=info.name if info.given else None,
            keyvalues=pin_api.as_texts(info.keyvalues) or None,
            group_id=self.options.group,
        )
        reply = yield self.request("POST", "/files/public/pin_by_cid", json=body)
        return read_job(self, reply, self.read_data(reply), "cid", cid=cid, info=info)

    def check_pin(self, pin: Pin) -> Exchange[Pin]:
        """Return a pin by `pin` as it is now: a job of the queue, then a file of the list."""
        query = urlencode({"cid": pin.cid, "limit": str(JOBS)})
        reply = yield self.request("GET", f"/files/public/pin_by_cid?{query}")
        state = find_job(self, reply, self.read_data(reply), "jobs", pin)
        if state is not None:
            return replace(pin, state=state_of(self, reply, state, pin.cid))
        pins = yield from self.find(pin.cid)
        return pins[0] if pins else pin

    def unpin(self, cid: str) -> Exchange[None]:
        """Delete every file with `cid`. The service deletes by its own ids."""
        pins = yield from self.find(cid, limit=None)
        if not pins:
            raise NotFoundError(f"{cid} is not pinned in the {self.options.network} network")
        for pin in pins:
            reply = yield self.request("DELETE", self.file_path(pin.id))
            # If the reply to an earlier attempt was lost, the file may be gone already.
            if not (reply.reply_lost and reply.status == pin_api.NOT_FOUND):
                self.check(reply)

    def file_path(self, pin_id: str) -> str:
        """Return the path of one file."""
        return f"/files/{self.options.network}/{quote(pin_id, safe='')}"

    # Credentials

    def check_credentials(self) -> Exchange[None]:
        """Return if the service accepts the key for reading and writing; nothing is written.

        The service signs a link for uploads only for a key that may upload.
        """
        files = self.pages(PinFilter(), limit=1)
        link = self._upload_link(1, 1, ())
        probes: tuple[tuple[str, Request, Callable[[Reply], object]], ...] = (
            ("org:files:read", files.request(), files.read),
            ("org:files:write", link, self._read_link),
        )
        lacking: list[str] = []
        refused: Reply | None = None
        for permission, request, read in probes:
            reply = yield request
            if reply.status == pin_api.FORBIDDEN:
                lacking.append(permission)
                refused = refused or reply
            else:
                read(reply)
        if refused is not None:
            error = provider_error(refused, secret=self.token)
            raise advise(error, f"give a key with the permission {' and '.join(lacking)}")

    # Links

    def sign_read(self, url: str, expires: int) -> Exchange[SignedURL]:
        """Return a link to the private file at `url`, which works for `expires` seconds."""
        body = {"url": url, "date": self._seconds(), "expires": expires, "method": "GET"}
        reply = yield self.request("POST", "/files/private/download_link", json=body)
        link = self._read_link(reply)
        if origin(link) != origin(url):
            words = "the provider's link does not lead to the gateway's host; it was not used"
            raise self.failure(words, reply)
        return link

    def sign_upload(
        self, expires: int, max_bytes: int | None, types: tuple[str, ...]
    ) -> Exchange[SignedURL]:
        """Return a link to which files can be uploaded without the key, for `expires` seconds.

        Args:
            expires: For how many seconds it works.
            max_bytes: The largest file; None for no limit but the service's.
            types: The media types, such as ``image/*``; none for any.
        """
        return self._read_link((yield self._upload_link(expires, max_bytes, types)))

    def _upload_link(self, expires: int, max_bytes: int | None, types: tuple[str, ...]) -> Request:
        body = pin_api.members(
            date=self._seconds(),
            expires=expires,
            network=self.options.network,
            group_id=self.options.group,
            max_file_size=max_bytes,
            allow_mime_types=list(types) or None,
        )
        return self.request("POST", "/files/sign", json=body, base_url=self.options.upload_url)

    def _read_link(self, reply: Reply) -> SignedURL:
        link = SignedURL(self.read_member(reply))
        if address_error(link):
            raise self.failure("the provider's reply is not a link (data)", reply)
        return link

    # Uploads in pieces

    def resumable(self) -> TusAPI:
        """Return the API for uploads in several requests."""
        query = urlencode({CID_VERSION: f"v{self.cid_version}"})
        return TusAPI(f"{self.options.upload_url}/files?{query}", self.token)

    def metadata(self, info: PinInfo, media_type: str) -> dict[str, str]:
        """Return the metadata that is sent when the upload of a file begins."""
        fields = self.upload_fields(info)
        return {"filename": fields.pop("name", ""), "filetype": media_type, **fields}

    def identity(self, metadata: Mapping[str, str], info: PinInfo) -> dict[str, str]:
        """Return the part of the metadata that is the same when the upload is continued later.

        A name that the user did not give may be another one then, such as a random one.
        """
        name = {} if info.given else {"filename": ""}
        return {**metadata, **name, EXPIRES_AT: str(self.options.expires)}

    def find_cid(self, location: str, expected: str | None) -> Exchange[str | None]:
        """Return the CID of a complete upload whose reply was lost; None if it is not there.

        It is `PENDING` while the service computes it. The upload has the id of the file. If the
        service had the content before, the file has another id, but the CID may be the `expected`
        one.
        """
        reply = yield self.request("GET", self.file_path(_file_id(location)))
        if reply.status not in GONE:
            cid = self.read_data(reply).get("cid")
            return cid if isinstance(cid, str) else None
        pins = [] if expected is None else (yield from self.find(expected))
        return pins[0].cid if pins else None

    def describe(self, cid: str, location: str, info: PinInfo) -> Exchange[Added]:
        """Return what became of a complete upload. Known content gets the name the user gave."""
        pins = yield from self.find(cid)
        pin_id = pins[0].id if pins else None
        is_known = None if pin_id is None else pin_id != _file_id(location)
        added = Added(cid=cid, duplicate=is_known, pin_id=pin_id)
        yield from self.rename_known(added, info)
        return added

    # Replies

    def read_member(self, reply: Reply) -> Any:
        """Return the member ``data`` of a successful reply; raise the error of another."""
        value = self.read_json(reply)
        if not isinstance(value, dict) or "data" not in value:
            words = (
                "the reply is not from the v3 API: no data; check pin_api_url and upload_url, "
                "and whether a proxy or login page is in between"
            )
            raise self.failure(words, reply)
        return value["data"]

    def read_data(self, reply: Reply) -> dict[str, Any]:
        """Return the object ``data`` of a successful reply; {} if it is something else."""
        data = self.read_member(reply)
        return data if isinstance(data, dict) else {}

    def _seconds(self) -> int:
        """Return the time in seconds, as the service takes it."""
        return self._clock() // 1000


def account_id(token: Secret) -> Secret:
    """Return what identifies an account: the user's id in a key of the service, else the token.

    So an upload whose key has expired can continue with a new key of the same user.
    """
    try:
        payload = token.reveal().split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        user = claims["userInformation"]["id"]
    except (LookupError, ValueError, TypeError):
        return token
    return Secret(user) if isinstance(user, str) and user else token


def _file_id(location: str) -> str:
    """Return the id of the file: the last but one part of the address of its upload, or ""."""
    return "".join(urlsplit(location).path.rstrip("/").split("/")[-2:-1])
