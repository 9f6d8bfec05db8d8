# WARNING: this file is generated from src/holdfast/_async/providers/base.py
# by scripts/generate_sync.py. Change the original instead.
"""The base class of providers: everything that does not depend on where the content is stored."""

import copy
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, ContextManager, Final, Self, TypeAlias, TypeVar, cast  # noqa: UP035

from holdfast._sync.content_file import ContentFile
from holdfast._sync.contract import StorageProvider
from holdfast._sync.dag_export import DagExport
from holdfast._sync.reads.reader import Reader
from holdfast._sync.reads.state import commit, on_disk
from holdfast._sync.runtime import at_end, compute, run_blocking, run_interruptible
from holdfast._sync.upload_sources import open_upload
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.config.fields import check_unchanged
from holdfast.config.locations import cache_folder
from holdfast.config.secret import Secret
from holdfast.content.blocks import Emit
from holdfast.content.car import car_head, section_head
from holdfast.content.cid import CID
from holdfast.content.codecs import has_value, read_value
from holdfast.content.profiles import Profile, profile_for
from holdfast.content.reference import Reference
from holdfast.content.sampling import Sample
from holdfast.content.unixfs.files import FileImporter, Part
from holdfast.disk.closing import on_error
from holdfast.disk.copy_journal import Place
from holdfast.errors import (
    ClientClosedError,
    NotFoundError,
    ProviderError,
    UnsupportedError,
)
from holdfast.protocol import json_text
from holdfast.protocol.gateway import Gateway
from holdfast.records import Added, Entry, Health, Pin, PinFilter, PinInfo, Usage
from holdfast.sinks.sinks import SpoolSink, TargetSink, TextSink, spool
from holdfast.sources.archive_sources import ArchiveSource
from holdfast.sources.blob import Blob
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.importing import ContentImporter, import_content
from holdfast.sources.sources import Progress, Source, no_progress

Content: TypeAlias = Source | FolderSource
Method = TypeVar("Method", bound=Callable[..., Any])

CANNOT_STORE: Final = (
    "cannot store new content, only pin what exists elsewhere; store it with another provider, "
    "such as kubo, then pin its CID here or copy it to here"
)


@dataclass(frozen=True, slots=True)
class Operation:
    """What is known about a method that some providers lack.

    Attributes:
        refusal: What the error says about such a provider, with the alternative.
        takes: The content without which `add` does not do it.
        over: The operation without which it does not work.
        is_missing: Whether the base class lacks it. There it raises UnsupportedError.
    """

    refusal: str
    takes: type | None = None
    over: str | None = None
    is_missing: bool = False

    def __call__(self, method: Method) -> Method:
        """Mark `method`."""

        @wraps(method)
        def refuse(self: "BaseProvider", *_: object, **__: object) -> None:
            raise self.refusal(method.__name__)

        marked = refuse if self.is_missing else method
        vars(marked)["mark"] = self
        return cast("Method", marked)


def optional(refusal: str) -> Operation:
    """Return the mark of a method that only subclasses have. So it needs no body."""
    return Operation(refusal, is_missing=True)


class BaseProvider(StorageProvider, ABC):
    """A provider over a reader and three methods: `add`, `unpin` and `check_credentials`.

    A subclass defines these. The base class does the rest: the methods of the contract, targets of
    downloads, events, deadlines, closing, copies with other options. Each of the three methods gets
    the current `Call`, which has the deadline and reports events.

    Everything else that some providers can do is a method that raises UnsupportedError here, such
    as `update_pin`. A subclass can do what it overrides; `supports` says so. Such a method starts
    its own call: ``with self.call("pins") as call``.

    Args:
        config: The configuration of the provider.
        reader: Reads and verifies content, such as a `holdfast.provider.BlockReader`.

    Attributes:
        takes: What `add` takes: `Source` (files and JSON), `FolderSource`, `ArchiveSource`.

    Example:
        >>> from holdfast.provider import CID, BlockReader
        >>> class MemoryProvider(BaseProvider):
        ...     def __init__(self, config: ClientConfig) -> None:
        ...         self.blocks: dict[CID, bytes] = {}
        ...         super().__init__(config, reader=BlockReader(self.get_block))
        ...     def get_block(self, cid: CID) -> bytes:
        ...         return self.blocks[cid]
        ...     def add(self, content, info, call, progress):
        ...         root = self.import_content(content, self.blocks.__setitem__, progress)
        ...         return Added(cid=str(root.cid))
        ...     def unpin(self, cid, call):
        ...         del self.blocks[CID.parse(cid)]
        ...     def check_credentials(self, call):
        ...         pass
        >>> provider = MemoryProvider(ClientConfig())
        >>> provider.url("bafkqaaa"), provider.supports("update_pin")
        ('ipfs://bafkqaaa', False)
    """

    takes: tuple[type, ...] = (Source,)
    # The fields of the configuration that a copy cannot change.
    shared_fields: ClassVar[tuple[str, ...]] = ("provider", "provider_options")

    def __init__(self, config: ClientConfig, *, reader: Reader) -> None:
        self._config = config
        self._reader = reader
        self._lifetime = Lifetime()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in ("put_json", "put_file"):
            first = next(base for base in cls.__mro__ if {name, "add"} & set(vars(base)))
            if "add" not in vars(first):
                raise TypeError(
                    f"{cls.__name__} overrides {name}, which clients do not call: override add"
                )

    @classmethod
    def from_config(cls, config: ClientConfig) -> Self:
        """Return the provider that `config` describes."""
        return cls(config)  # type: ignore[call-arg]  # a subclass takes a configuration alone

    @property
    def config(self) -> ClientConfig:
        """The configuration of the provider."""
        return self._config

    @property
    def reader(self) -> Reader:
        """What reads and verifies content."""
        return self._reader

    @property
    def stored(self) -> "BaseProvider":
        """The provider of the content as it is stored, which copies read from and write to.

        It is the provider itself, unless a wrapper changes content on its way.
        """
        return self

    @property
    def keeps_layout(self) -> bool:
        """Whether files are stored in blocks that we cut, by the `leaf_ends` of their sources."""
        return self.supports("import_archive")

    def default_name(self, own: str) -> str:
        """Return the name of content to which the user gave none; `own` is what it is called."""
        return own

    # For subclasses to define

    @optional(CANNOT_STORE)
    def add(self, content: Content, info: PinInfo, call: Call, progress: Progress, /) -> Added:
        """Store and pin `content`; call `progress` with the bytes done and the total.

        The content is one of those in `takes`. A source whose `json` is not None may be stored by a
        call for JSON, or like any other file. A provider that stores blocks can make them with
        `import_content`.
        """

    @abstractmethod
    def unpin(self, cid: str, call: Call, /) -> None:
        """Unpin `cid`, which is a valid CID; raise NotFoundError if it is not pinned."""

    @abstractmethod
    def check_credentials(self, call: Call, /) -> None:
        """Return if the provider can be used with its credentials; raise an error otherwise."""

    def release(self) -> None:
        """Close connections and files. `close` calls it until it has succeeded once."""

    # What some providers can do

    @Operation("cannot list what it keeps; keep the CIDs of your records", over="find_pins")
    def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """Return the pins whose name contains `name`, newest first, at most `limit` of them."""
        return [pin for pin in self.find_pins(PinFilter(name=name), limit=limit)]

    @optional("can only list pins by name; leave the other filters out")
    def find_pins(self, pin_filter: PinFilter, *, limit: int | None = None) -> Iterator[Pin]:
        """Yield the pins that match `pin_filter`, newest first, at most `limit` of them."""

    @optional("cannot change pins; store the content again")
    def update_pin(self, cid: str, *, name: str | None, keyvalues: Mapping[str, Any] | None) -> Pin:
        """Change the name, the key-values or both of the pin of `cid`; None keeps what is there.

        Key-values are added to those of the pin; a key with the value None is removed. Raise
        NotFoundError if `cid` is not pinned.
        """

    @optional("cannot pin content by its CID; download it and upload it here")
    def pin(self, cid: str, info: PinInfo) -> Pin:
        """Pin `cid`; return the pin as soon as the provider has accepted the request."""

    def check_pin(self, pin: Pin) -> Pin:
        """Return a pin of `pin` as it is now; raise ProviderError if the provider has failed.

        Define it if `pin` may return before the content is pinned.
        """
        return pin

    @optional("does not report its usage; count the pins of iter_pins")
    def usage(self) -> Usage:
        """Return the number of pins and of bytes, as far as the provider says it."""

    @optional("does not accept addresses of content; pin it by its CID alone")
    def pin_from(self, cid: str, info: PinInfo, origins: Sequence[str]) -> Pin:
        """Pin `cid`, as `pin` does. `origins` are multiaddrs of nodes that have it."""

    @optional("does not report its network addresses; look them up yourself")
    def addresses(self) -> list[str]:
        """Return the public multiaddrs of the node; an empty list if it has none."""

    @optional("cannot show which blocks it has itself; read the content instead")
    def own_block(self, cid: CID) -> bytes:
        """Return a block from what the provider has itself, verified; ask nobody else for it.

        Raise NotFoundError if it is not there.
        """

    @optional("reads through no gateways; ask it for its own blocks")
    def gateway_block(self, cid: CID, gateway: str) -> bytes:
        """Return a block that the gateway at the address `gateway` has, verified.

        Raise NotFoundError if the gateway would have to fetch it, and `NotOwnReplyError` if a cache
        before the gateway sent it, or the gateway has searched the network for it.
        """

    @optional("is one place; leave only_at out, or use a client of provider copies")
    def delete_at(self, cid: str, name: str) -> None:
        """Unpin `cid` at the member `name` alone; refuse if too few others are proven now."""

    @optional("is one place; use a client of provider copies")
    def check_health(
        self, sample: Sample, *, fix: bool, adopt: bool, progress: Progress
    ) -> Iterator[Health]:
        """Prove everything that is cared for, and yield what is found."""

    @optional("is one place; use a client of provider copies")
    def foreign_pins(self) -> Iterator[Pin]:
        """Yield the members' pins that were not made through this provider; `peers` says whose."""

    @optional("makes no signed links; only provider pinata does")
    def signed_url(self, cid: str, *, expires: int) -> str:
        """Return a link to the private content at `cid`, which works for `expires` seconds."""

    @optional("makes no signed links; only provider pinata does")
    def signed_upload_url(
        self, *, expires: int, max_bytes: int | None, types: tuple[str, ...]
    ) -> str:
        """Return a link for uploads, which works for `expires` seconds; no types are all types."""

    @optional("has no keys; share with the view that client.encrypted(…) returns")
    def share(
        self, cid: str, recipients: Sequence[str], info: PinInfo, progress: Progress | None
    ) -> tuple[Added, int]:
        """Store an age file or a folder of them for more readers; return also the plain size.

        `progress` is called with the number of files that are done, and of all files.
        """

    @optional("has no keys; ask the view that client.encrypted(…) returns")
    def readers(self, cid: str) -> dict[str, int]:
        """Return how many readers of each kind an age file has."""

    @Operation("cannot import archives; upload the files", takes=ArchiveSource, is_missing=True)
    def import_car(self, pieces: Iterable[bytes], *, blocks_only: bool = False) -> list[str]:
        """Import an archive and pin its roots; return their CIDs.

        With `blocks_only`, nothing is pinned, and blocks may be missing: what the archive has stays
        until garbage is collected.
        """

    @optional("cannot export archives; download the files")
    def export_car(self, cid: str) -> Iterator[bytes]:
        """Yield the archive of everything under `cid`."""

    def supports(self, operation: str) -> bool:
        """Return whether the provider has an operation, by the name of the method.

        Example:
            >>> from holdfast import LocalProvider
            >>> provider = LocalProvider(ClientConfig(path="store"))
            >>> provider.supports("import_archive"), provider.supports("signed_url")
            (True, False)
        """
        method = getattr(type(self), operation, None)
        mark: Operation | None = getattr(method, "mark", None)
        base: Operation | None = getattr(getattr(BaseProvider, operation, None), "mark", None)
        if base is not None and base.over == "add":
            mark = base  # whoever overrides it, `add` and `takes` decide
        if mark is None:  # it has no such method, or one of its own
            return method is not None
        if mark.is_missing or mark.takes not in (None, *self.takes):
            return False
        return mark.over is None or self.supports(mark.over)

    def require(self, operation: str) -> Self:
        """Return the provider itself; raise UnsupportedError if it lacks the operation."""
        if not self.supports(operation):
            raise self.refusal(operation)
        return self

    def refusal(self, operation: str) -> UnsupportedError:
        """Return the error for an operation that the provider lacks, with the alternative."""
        mark = getattr(getattr(BaseProvider, operation, None), "mark", None)
        if mark is None:
            return UnsupportedError(f"{self.title} has no operation {operation!r}")
        is_read_only = mark.takes is not None and not self.supports("put_file")
        return UnsupportedError(f"{self.title} {CANNOT_STORE if is_read_only else mark.refusal}")

    # Where the provider is

    def where(self) -> str:
        """Return the path or the address of the provider, for people; no secret is in it."""
        return os.fspath(self.config.path or "")

    @property
    def title(self) -> str:
        """The name of the provider in errors and events."""
        return type(self).__name__

    def place(self) -> Place:
        """Return what a journal calls the provider. This may read from disk.

        Two providers at one place, with the same account, have the same content.
        """
        path = self.config.path
        return self.place_at(path and os.path.realpath(path), self.config.pin_api_url)

    def place_at(self, *address: object, folder: str = "") -> Place:
        """Return the place of this provider at `address`."""
        config = self.config
        account = config.provider_token
        if config.provider_options:  # they may name a part of an account
            secret = account and account.reveal()
            account = Secret(f"{secret} {sorted(config.provider_options.items())}")
        words = [self.title.removeprefix("Async"), *(str(part) for part in address if part)]
        return Place(" ".join(words), account, folder)

    def is_on_network(self) -> bool:
        """Return whether other nodes of IPFS can fetch the content of the provider by its CID."""
        return False

    # Calls, and what they share

    def call(
        self, operation: str, cid: str | None = None, *, total: bool = True
    ) -> ContextManager[Call]:
        """Start a call, which reports events. It has a deadline if `total` is True.

        Raise ClientClosedError if the provider is closed.
        """
        return self._call(operation, cid, self.config.timeouts.total if total else None)

    @contextmanager
    def _call(self, operation: str, cid: str | None, total: float | None) -> Iterator[Call]:
        hook = self.config.on_event
        with Call(operation, cid=cid, total=total, hook=hook, provider=self.title) as call:
            self.check_open()
            yield call

    def check_open(self) -> None:
        """Raise ClientClosedError if the provider is closed."""
        if self._lifetime.closed:
            raise ClientClosedError

    # Writing, over `add`

    def put(self, content: Content, info: PinInfo, progress: Progress | None = None) -> Added:
        """Store `content` with a name and key-values. This is what clients call."""
        method, operation, cid = _describe(content)
        self.require(method)
        with self.call(operation, cid, total=method == "put_json") as call:
            report = no_progress if progress is None else progress
            added = self.add(content, info, call, report)
            call.cid = str(added.cid)
            return added

    @Operation(CANNOT_STORE, takes=Source, over="add")
    def put_json(self, text: str, *, name: str) -> str:
        """Store the JSON `text` under `name`; return its CID."""
        return str((self.put(Source.of_json(text), PinInfo(name=name))).cid)

    @Operation(CANNOT_STORE, takes=Source, over="add")
    def put_file(self, source: Source, *, name: str, progress: Progress | None = None) -> str:
        """Store the bytes of `source` as a file called `name`; return its CID."""
        return str((self.put(source, PinInfo(name=name), progress)).cid)

    @Operation(
        "cannot store directories; upload the files one by one", takes=FolderSource, over="add"
    )
    def add_directory(
        self, folder: FolderSource, info: PinInfo, *, progress: Progress | None = None
    ) -> Added:
        """Store all that `folder` has under one CID."""
        return self.put(folder, info, progress)

    @Operation(
        "cannot store archives; download the content and upload it there",
        takes=ArchiveSource,
        over="add",
    )
    def import_archive(self, cid: str, pieces: Iterable[bytes], info: PinInfo) -> Added:
        """Store an archive (CAR) whose only root is `cid`, and pin it; all of it or nothing."""
        root = CID.parse(Reference.parse_cid(cid))
        source = cast("Source", open_upload(pieces))
        with at_end(source.close):
            return self.put(ArchiveSource(source, root), info)

    @Operation(
        "cuts files in its own way; copy the content to a provider that takes archives, such as "
        "kubo, and share it there, or upload it for all readers",
        takes=ArchiveSource,
        is_missing=True,
    )
    def import_whole(self, cid: str, pieces: Iterable[bytes], info: PinInfo) -> Added:
        """Do what `import_archive` does, at a service that cuts all other files in its own way."""

    # Cutting content into blocks, for providers that store blocks

    @property
    def profile(self) -> Profile:
        """The layout of files and folders that are cut here, by the configuration."""
        return profile_for(self.config.profile, self.config.cid_version)

    def import_content(self, content: Content, put_block: Emit | None, progress: Progress) -> Part:
        """Cut a file or folder into blocks by the configured profile; return the root.

        Every block is passed to `put_block`, on a worker thread; None only computes the CID.
        `progress` counts the bytes of all files.
        """
        if isinstance(content, FolderSource):
            return self.import_folder(content, put_block, progress)
        if content.json is not None and put_block is None:
            return compute(len(content.json), import_content, content.json, self.profile)
        return self.import_file(content, put_block, progress)

    def spool(self, source: Source, limit: int | None = None) -> Source:
        """Return a seekable source of the bytes of `source`, which can be read only once."""
        stop = threading.Event()
        with on_error(stop.set):  # a cancelled call does not wait for its thread
            return run_interruptible(spool, source, limit, stop.is_set)

    def import_file(self, source: Source, put_block: Emit | None, progress: Progress) -> Part:
        """Cut the bytes of `source` into blocks by the configured profile; return the root.

        Every block is passed to `put_block`, on a worker thread; None only computes the CID.
        """
        importer = FileImporter(self.profile, put_block, source.leaf_ends)
        chunks = source.chunks()
        done = 0
        while chunk := run_interruptible(next, chunks, b""):
            run_blocking(importer.update, chunk)
            done += len(chunk)
            progress(done, source.size)
        part = run_blocking(importer.finish)
        if not done:
            progress(0, 0)
        return part

    def import_folder(
        self, folder: FolderSource, put_block: Emit | None, progress: Progress
    ) -> Part:
        """Cut the files of `folder` into blocks, and build its directories; return the root.

        Every block is passed to `put_block`, on a worker thread; None only computes the CID.
        `progress` counts the bytes of all files.
        """
        importer = ContentImporter(folder, self.profile, put_block)
        with at_end(importer.close):
            while run_blocking(importer.advance):
                progress(importer.done, folder.size)
            progress(importer.done, folder.size)
        return importer.result()

    # Unpinning, and checking credentials

    def delete(self, cid: str) -> None:
        """Unpin `cid`; raise NotFoundError if it is not pinned."""
        with self.call("revoke", cid) as call:
            self.unpin(Reference.parse_cid(cid), call)

    def test_authentication(self) -> None:
        """Return if the provider can be used with its credentials; raise an error otherwise."""
        with self.call("test_connection") as call:
            self.check_credentials(call)

    # Reading, over `reader`

    def get_json(self, cid: str) -> Any:
        """Return the JSON value at `cid`; of another codec, with links as CID and bytes."""
        reference = Reference.parse(cid)
        with self.call("retrieve", cid) as call:
            missing: NotFoundError | None = None
            if not reference.path or not has_value(reference.cid):
                try:
                    return self._read_value(reference, call)
                except NotFoundError as error:
                    if not reference.path:
                        raise
                    missing = error
            # The path may end inside a value, which no reader of files finds.
            try:
                end, inside = self.reader.blocks(reference, call).follow(reference, call)
            except ProviderError:  # a gateway may refuse single blocks
                if missing is None:
                    raise
                raise missing from None
            return self._read_value(Reference(str(end), end), call, inside)

    def _read_value(self, reference: Reference, call: Call, inside: Sequence[str] = ()) -> Any:
        """Return the JSON value at `reference`, or what is in a value of another codec."""
        sink = TextSink(self.config.max_json_bytes)
        self.reader.read(reference, sink, call)
        content = commit(sink) if sink.finishes else sink
        target = reference.target or sink.cid
        if target is not None and has_value(target):
            return compute(sink.size, read_value, target, bytes(content.data), inside)
        return json_text.from_content(content.data)

    def get_file(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
        max_bytes: int | None = None,
    ) -> Blob:
        """Return the file at `cid`; with `to`, write it there, complete or not at all.

        More than `max_bytes` are a TooLargeError.
        """
        reference = Reference.parse(cid)
        if to is None:
            sink: SpoolSink | TargetSink = SpoolSink(max_bytes)
        else:
            # A download from this machine is quick to repeat: nothing of it is kept.
            cache = cache_folder(self.config.cache_path) if self.reader.is_remote else None
            sink = TargetSink(to, cache=cache, reference=reference, max_bytes=max_bytes)
        with self.call("download", cid, total=False) as call:
            try:
                on_disk(sink, sink.open)
                media_type = self.reader.read(reference, sink, call, progress=progress)
                return (commit(sink)).blob(type=media_type, name=_name(reference))
            finally:
                on_disk(sink, sink.discard)

    @Operation("cannot open files in parts; use download")
    def open_file(self, cid: str) -> ContentFile:
        """Return the file at `cid`, whose parts are read and verified on demand."""
        reference = Reference.parse(cid)
        with self.call("open", cid) as call:
            ranges = self.reader.open(reference, call)
        return ContentFile(ranges, name=_name(reference))

    @Operation("cannot list directories; keep a list of your files")
    def iter_entries(self, cid: str, *, details: bool = False) -> Iterator[Entry]:
        """Yield the entries of the directory at `cid`; with `details`, also sizes and kinds.

        Each page of blocks is a call of its own, so that nothing is held, and no time runs, while
        the caller works on an entry.
        """
        pages = self.reader.pages(Reference.parse(cid), details=details)
        asked_wait = 0.0
        page: list[Entry] | None = []
        while page is not None:
            for entry in page:
                yield entry
            with self.call("entries", cid) as call:
                # All pages share one limit on the waits by ``Retry-After``.
                call.clock.asked_wait = asked_wait
                page = pages.next_page(call)
                asked_wait = call.clock.asked_wait

    @Operation("cannot list directories; keep a list of your files")
    def stat(self, cid: str) -> Entry:
        """Return the size and the kind of the content at `cid`."""
        with self.call("stat", cid) as call:
            return self.reader.stat(Reference.parse(cid), call)

    @Operation("cannot send content block by block; download it and upload it there")
    def export_archive(self, cid: str) -> Iterator[bytes]:
        """Yield an archive (CAR) of everything under `cid`, each block verified and only once.

        Nothing is yielded before the first block is there, for which there is the time of a call.
        Each page of blocks is a call of its own, so that nothing is held while the caller stores
        it.
        """
        reference = Reference.parse(Reference.parse_cid(cid))
        export = DagExport(self.reader, reference)
        head = car_head([reference.cid])
        with closing(export):
            while True:
                with self.call("export", cid, total=bool(head)) as call:
                    page = export.next_page(call)
                if page is None:
                    break
                pieces = [head]
                for block, data in page:
                    pieces += (section_head(block, len(data)), data)
                yield b"".join(pieces)
                head = b""
            if head:  # everything is in the CID itself
                yield head

    def url(self, cid: str) -> str:
        """Return the address of `cid` at the first gateway of the configuration, if it has one."""
        gateways = self.config.gateway_url
        return Gateway(gateways[0]).url(Reference.parse(cid)) if gateways else f"ipfs://{cid}"

    # Copies with other options, and closing

    @Operation("does not accept other options; make a new client")
    def with_config(self, config: ClientConfig) -> Self:
        """Return a copy with `config` that shares the connections and files of this provider."""
        check_unchanged(self.shared_fields, self.config, config)
        return self.copy_with(config)

    def copy_with(self, config: ClientConfig) -> Self:
        """Return a copy with `config`, whose shared fields have not changed.

        Override this if the provider stores values of its configuration other than `config`.
        """
        other = copy.copy(self)
        other._config = config  # noqa: SLF001 - our own
        return other

    def close(self) -> None:
        """Close the provider. Closing it again has no effect."""
        self._lifetime.closed = True
        if self._lifetime.released:
            return
        self._lifetime.released = True
        try:
            self.release()
        except BaseException:
            self._lifetime.released = False  # the next call tries again
            raise


@dataclass(slots=True)
class Lifetime:
    """Whether a provider is closed, and has released its resources. Its copies share this."""

    closed: bool = False
    released: bool = False


def _describe(content: Content) -> tuple[str, str, str | None]:
    """Return the method that stores `content`, the operation in events, and the CID if known."""
    if isinstance(content, ArchiveSource):
        return "import_archive", "import", str(content.root)
    if isinstance(content, FolderSource):
        return "add_directory", "upload", None
    return ("put_file", "upload", None) if content.json is None else ("put_json", "store", None)


def _name(reference: Reference) -> str | None:
    return reference.path[-1] if reference.path else None
