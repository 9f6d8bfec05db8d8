"""A multipart upload, which is parsed and added to the repository while it arrives."""

from typing import Any, Final

from holdfast.content.media_types import told_type
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter, Part
from holdfast.node.http_server.refusals import bad_request
from holdfast.node.pinning_api.form_parser import FormParser
from holdfast.node.pinning_api.json_values import parse_json, with_numbers
from holdfast.node.pinning_api.metadata import PinOptions, read_metadata, read_options
from holdfast.node.pinning_api.pin_groups import Groups, Pinned, pin_in_group
from holdfast.node.pinning_api.upload_tree import Entries, UploadTree
from holdfast.repository import Repository
from holdfast.repository.file_adding import FileAdding

MAX_SMALL: Final = 2 << 20  # bytes of small blocks that wait for their transaction


class FormUpload(FormParser):
    """Parses the pieces of a form, and pins its files in `finish`.

    A file may come before the options that set its layout. It is then added in the default layout,
    and if the options want another one, read from the repository and added again.
    """

    def __init__(self, repository: Repository, groups: Groups, content_type: str) -> None:
        super().__init__(content_type)
        self._repository = repository
        self._groups = groups
        self._adding = repository.adding()
        self._adding.max_held = MAX_SMALL
        self._file: FileAdding | None = None
        self._fields: dict[str, Any] = {}
        self._options = PinOptions()
        self._tree = UploadTree()
        self._path = b""  # of the current file
        self._first_type = ""
        self._is_flushed = False  # whether all files can be read from the repository

    @property
    def held(self) -> int:
        """The approximate bytes of memory that the upload holds between two pieces."""
        leaf = 0 if self._file is None else self._file.held
        return super().held + leaf + self._adding.held + self._tree.held

    def begin_file(self, filename: str, media_type: str) -> None:
        """Begin a file, in the layout that is known so far."""
        self._path = self._tree.check(filename)
        if not self._tree.count:
            self._first_type = media_type
        self._file = FileAdding(self._adding, self._options.profile)

    def take_bytes(self, data: bytes) -> None:
        """Add the next bytes of the file."""
        if self._file is not None:
            self._file.update(data)

    def end_file(self) -> None:
        """Put the file into the tree."""
        if self._file is not None:
            self._tree.add(self._path, self._file.finish())
            self._file = None

    def begin_field(self, name: str) -> None:
        """Refuse fields that the service does not have."""
        if name not in {"pinataMetadata", "pinataOptions", "network"}:
            raise bad_request("Unexpected field")

    def take_field(self, name: str, text: bytes) -> None:
        """Take the metadata or the options."""
        if name != "network":
            self._fields[name] = with_numbers(parse_json(text)) if text else None
        if name == "pinataOptions":
            self._options = read_options(self._fields[name])

    def finish(self) -> Pinned:
        """Pin what was uploaded."""
        self.end_form()
        files = self._tree.count
        if not files:
            raise bad_request("Invalid request format.")
        metadata = read_metadata(self._fields.get("pinataMetadata"))
        name, part = self._tree.build(self._in_layout, self._directory)
        pin_name = metadata.name or name.decode()
        is_file = b"\0" not in self._path and not self._options.wrap
        if self._options.wrap:
            part = self._directory([(name, part)])
        return pin_in_group(
            self._groups,
            self._options.group_id,
            self._adding,
            part.cid,
            name=pin_name,
            keyvalues=metadata.keyvalues,
            size=part.dag_size,
            files=files,
            type=told_type(self._first_type, pin_name) if is_file else "directory",
        )

    def _directory(self, entries: Entries) -> Part:
        return build_directory(entries, self._options.profile, self._adding.put)

    def _in_layout(self, part: Part) -> Part:
        """Return the file in the layout of the options, which may have come after the file."""
        if part.cid.version == self._options.cid_version:
            return part
        if not self._is_flushed:
            self._adding.flush()  # once for all files, because each flush is a transaction
            self._is_flushed = True
        importer = FileImporter(self._options.profile, self._adding.put)
        for piece in self._repository.read(part.cid):
            importer.update(piece)
        return importer.finish()

    def close(self) -> None:
        """End the upload and free its memory. Garbage collection removes what was not pinned."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._adding.close()
        self._field.clear()
        self._tree = UploadTree()
