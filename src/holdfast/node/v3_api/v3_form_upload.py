"""An upload in one form. The file may come before the field that names its network."""

import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import IO, Any, Final

from holdfast.content.cid import CID
from holdfast.content.media_types import told_type
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import Part
from holdfast.node.http_server.refusals import bad_request
from holdfast.node.pinning_api.form_upload import MAX_SMALL, Entries, FormParser, UploadTree
from holdfast.node.v3_api.networks import File, Network, Networks
from holdfast.node.v3_api.upload_options import (
    FIELDS,
    UploadOptions,
    check_type,
    pin_upload,
    read_network,
    read_upload_options,
    too_large,
)
from holdfast.repository.adding import Adding
from holdfast.repository.file_adding import FileAdding

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
