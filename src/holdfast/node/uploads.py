"""A multipart upload on its way into the repository: parsed and imported as it comes."""

from typing import Any, Final

try:
    from multipart import MultipartError, MultipartSegment, PushMultipartParser
except ImportError:
    raise ImportError(
        "the node needs the package multipart 2, which an old python-multipart hides: "
        "pip install --upgrade python-multipart 'holdfast[node]'",
        name="multipart",
    ) from None

from holdfast.content.media_types import told_type
from holdfast.content.profiles import Profile
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter, Part
from holdfast.node.bodies import parse_json, plain
from holdfast.node.metadata import Metadata, Options, read_metadata, read_options
from holdfast.node.replies import bad_request
from holdfast.repository import Pin, Repository

MAX_FIELD: Final = 1 << 20
MAX_PARTS: Final = 100_000
MAX_DEPTH: Final = 200

Tree = dict[str, Any]  # names to parts, or to further trees


class Upload:
    """Is fed the pieces of a form; `finish` pins what was in it.

    A file may come before the options that say how it is to be cut. It is then cut in the usual
    way, and cut anew from the repository where the options want another.
    """

    def __init__(self, repository: Repository, content_type: str) -> None:
        kind, _, parameters = content_type.partition(";")
        boundary = _parameter(parameters, "boundary")
        if kind.strip().lower() != "multipart/form-data" or not boundary:
            raise bad_request("Invalid request format.")
        self._repository = repository
        self._adding = repository.adding()
        self._parser = PushMultipartParser(
            boundary, max_header_size=16384, max_header_count=16, max_segment_count=MAX_PARTS
        )
        self._segment: MultipartSegment | None = None
        self._importer: FileImporter | None = None
        self._field = bytearray()
        self._fields: dict[str, Any] = {}
        self._options = Options()
        self._used = self._options.profile
        self._tree: Tree = {}
        self._files = 0
        self._types: list[str] = []

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the form."""
        try:
            for event in self._parser.parse(piece):
                if isinstance(event, MultipartSegment):
                    self._begin(event)
                elif event is None:
                    self._end()
                else:
                    self._data(bytes(event))
        except MultipartError:
            raise bad_request("Invalid request format.") from None

    def _begin(self, segment: MultipartSegment) -> None:
        self._segment = segment
        if segment.name == "file":
            if not segment.filename:
                raise bad_request("Invalid request format.")
            self._used = self._options.profile
            self._importer = FileImporter(self._used, self._adding.put)
        elif segment.name in {"pinataMetadata", "pinataOptions", "network"}:
            self._field = bytearray()
        else:
            raise bad_request("Unexpected field")

    def _data(self, data: bytes) -> None:
        if self._importer is not None:
            self._importer.update(data)
        else:
            self._field += data
            if len(self._field) > MAX_FIELD:
                raise bad_request("A field of the form is too large")

    def _end(self) -> None:
        segment = self._segment
        if segment is None:
            return
        if self._importer is not None:
            self._keep(segment.filename or "", self._importer.finish(), segment.content_type or "")
            self._importer = None
        elif segment.name != "network":
            text = bytes(self._field).strip()
            self._fields[str(segment.name)] = plain(parse_json(text)) if text else None
            if segment.name == "pinataOptions":
                self._options = read_options(self._fields["pinataOptions"])
        self._segment = None

    def _keep(self, filename: str, part: Part, content_type: str) -> None:
        """Put a file into its place in the tree of directories that the names describe."""
        names = filename.removeprefix("./").split("/")
        if any(name in {"", ".", ".."} or "\0" in name for name in names):
            raise bad_request("A filename must be a relative path without '..' or empty names")
        if len(names) > MAX_DEPTH:
            raise bad_request(f"A filename may have {MAX_DEPTH} directories at the most")
        tree = self._tree
        for name in names[:-1]:
            tree = tree.setdefault(name, {})
            if not isinstance(tree, dict):
                raise bad_request(f"{name} is a file and a directory at once")
        if names[-1] in tree:
            raise bad_request(f"{names[-1]} comes twice")
        tree[names[-1]] = (part, self._used)
        self._files += 1
        self._types.append(content_type)

    def finish(self) -> tuple[Pin, bool]:
        """Pin what was uploaded; the pin, and whether it was there before."""
        try:
            self._parser.close()
        except MultipartError:
            raise bad_request("Invalid request format.") from None
        if not self._tree:
            raise bad_request("Invalid request format.")
        if len(self._tree) > 1:
            raise bad_request("More than one file and/or directory was provided for pinning.")
        metadata = read_metadata(self._fields.get("pinataMetadata"))
        ((root_name, content),) = self._tree.items()
        is_directory = isinstance(content, dict)
        top = self._tree if self._options.wrap else content
        part = self._build(top)
        about = _about(metadata, root_name)
        is_file = not is_directory and not self._options.wrap
        media_type = told_type(self._types[0], about["name"]) if is_file else "directory"
        return self._adding.pin(
            part.cid,
            **about,
            size=part.dag_size,
            files=self._files,
            type=media_type,
        )

    def _build(self, content: Any) -> Part:
        profile = self._options.profile
        if isinstance(content, dict):
            entries = [(name.encode(), self._build(each)) for name, each in content.items()]
            return build_directory(entries, profile, self._adding.put)
        part, used = content
        return part if used is profile else self._cut_anew(part, profile)

    def _cut_anew(self, part: Part, profile: Profile) -> Part:
        self._adding.flush()
        importer = FileImporter(profile, self._adding.put)
        for piece in self._repository.read(part.cid):
            importer.update(piece)
        return importer.finish()

    def close(self) -> None:
        """End the upload; what was not pinned may be collected."""
        self._adding.close()


def _about(metadata: Metadata, name: str) -> dict[str, Any]:
    return {"name": metadata.name or name, "keyvalues": metadata.keyvalues}


def _parameter(parameters: str, name: str) -> str:
    for parameter in parameters.split(";"):
        key, _, value = parameter.partition("=")
        if key.strip().lower() == name:
            return value.strip().strip('"')
    return ""
