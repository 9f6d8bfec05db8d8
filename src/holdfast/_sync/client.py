# WARNING: this file is generated from src/holdfast/_async/client.py
# by scripts/generate_sync.py. Change the original instead.
"""The client that applications use: checks arguments, calls the provider, and returns records."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Never, NoReturn, Self, TypeVar, Unpack
from weakref import WeakSet

from holdfast import arguments
from holdfast._sync.content_file import ContentFile
from holdfast._sync.contract import StorageProvider
from holdfast._sync.opening import Closes, opens
from holdfast._sync.outcomes import Outcomes
from holdfast._sync.pin_waiting import PinStream, wait_for_pin
from holdfast._sync.runtime import run_blocking
from holdfast._sync.upload_sources import Uploadable, open_upload
from holdfast._sync.workers import Items, WorkGroup, iterate
from holdfast.config import ClientConfig, ConfigFields
from holdfast.config.checks import recipients as check_recipients
from holdfast.config.fields import takes_secrets, wrap_secret, wrap_secrets
from holdfast.config.secret import Secret
from holdfast.content.reference import Reference
from holdfast.errors import ClientClosedError, NotFoundError
from holdfast.hints import OTHER_METHODS
from holdfast.protocol import json_text
from holdfast.records import (
    Added,
    ClientMessage,
    ClientRecord,
    Copied,
    Entry,
    EntryList,
    Health,
    Moment,
    OnPinProgress,
    Pin,
    PinFilter,
    PinInfo,
    Pins,
    StoreOptions,
    Usage,
    now_ms,
)
from holdfast.registry import build_provider
from holdfast.single_line import single_line
from holdfast.sources.blob import Blob
from holdfast.sources.folder_source import IGNORE_FILE, FolderSelection, FolderSource
from holdfast.sources.sources import Progress, Source, no_progress

# Imported in the methods: most programs copy nothing, and should not wait for the modules.
if TYPE_CHECKING:
    from holdfast._sync.copying import Copier
    from holdfast._sync.folder_download import Tally
    from holdfast._sync.providers.base import BaseProvider
    from holdfast.content.age.keyring import Keyring

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")
File = TypeVar("File", bound="Uploadable | tuple[str, Uploadable]")
Copyable = TypeVar("Copyable", bound="str | Pin")

PIN_WAIT: Final = 60.0  # seconds for a target to fetch content by its CID


class Client(Closes):
    """Store JSON, files and messages, and read them back by CID.

    Make a client with `init`, share it between any number of threads, and close it, preferably with
    ``with``. A client from ``Client(provider=…)`` does not close the provider: do that
    yourself.

    Example:
        >>> with Client.init() as client:
        ...     record = client.store({"hello": "world"})
        ...     print(client.retrieve(record.cid))
        {'hello': 'world'}
    """

    def __init__(
        self,
        provider: StorageProvider | None = None,
        *,
        config: ClientConfig | None = None,
        **fields: Never,
    ) -> None:
        self._passed: StorageProvider = provider  # type: ignore[assignment]  # checked below
        self._closed = False
        if fields or not isinstance(provider, StorageProvider):
            what = f"{type(provider).__name__} does not implement StorageProvider"
            if fields:
                what = f"Client() has no argument {min(fields)!r}"
            del provider, fields  # one may be a token, passed by mistake
            raise TypeError(f"{what}; to configure a client, use Client.init(…)")
        # A program should not wait for the modules of providers before it has one.
        from holdfast._sync.providers.foreign import as_provider  # noqa: PLC0415

        self._provider = as_provider(provider)
        self._config = config or self._provider.config
        self._groups: WeakSet[WorkGroup[Any, Any]] = WeakSet()
        self._owns_provider = False
        self._own_view: Self | None = None

    @classmethod
    @opens
    @takes_secrets
    def init(
        cls,
        config: ClientConfig | Mapping[str, Any] | None = None,
        /,
        **fields: Unpack[ConfigFields],
    ) -> Self:
        """Return a client for `config`: a `ClientConfig`, a mapping, or keywords, which override.

        Without arguments, it stores on this machine. The usual fields are `provider`,
        `provider_token`, `gateway_url` and `path`; ``help(ClientConfig)`` explains all of them.
        Nothing is sent. Raise ConfigError for a wrong or missing field.

        Example:
            >>> with Client.init(path="store", timeouts={"read": 30}) as client:
            ...     print(client.config.provider, client.config.timeouts.read)
            local 30
        """
        settings = ClientConfig.of(config, **fields)
        client = cls(build_provider(settings), config=settings)
        client._owns_provider = True
        return client

    @classmethod
    @opens
    @takes_secrets
    def connect(cls, name: str, /, **changes: Unpack[ConfigFields]) -> Self:
        """Return a client for the connection `name` of the user's ``holdfast.toml``.

        The rules are those of ``--use`` on the command line: `changes` override the connection, and
        it overrides ``HOLDFAST_*`` variables and the other settings of the file. Tokens come from
        the connection or from `changes`, and the connection's token is not sent to any other
        address. No project's file is read, and nothing is sent. Raise ConfigError for an unknown
        name, and for a wrong or missing field.

        Example:
            >>> with Client.connect("disk", verify=False) as client:
            ...     print(client.config.provider, client.config.verify)
            local False
        """
        from holdfast.config.settings_files import connection_fields  # noqa: PLC0415

        return cls.init(run_blocking(connection_fields, name, changes))

    @property
    def provider(self) -> StorageProvider:
        """The provider that stores the content."""
        return self._passed

    @property
    def config(self) -> ClientConfig:
        """The configuration of the client."""
        return self._config

    @takes_secrets
    def with_options(self, **changes: Unpack[ConfigFields]) -> Self:
        """Return a client with other options that shares the connections. Close only this client.

        Example:
            >>> record = client.store([1, 2, 3])
            >>> client.with_options(verify=False).retrieve(record.cid)
            [1, 2, 3]
        """
        self._check_open()
        config = self._config.with_options(**changes)
        provider = self._provider.require("with_config").with_config(config)
        client = type(self)(provider, config=config)
        client._groups = self._groups  # noqa: SLF001 - our own
        return client

    def encrypted(
        self,
        *,
        recipients: str | Sequence[str] | None = None,
        identities: "str | Secret | Sequence[str | Secret] | None" = None,
        write_only: bool = False,
    ) -> Self:
        """Return a view that encrypts everything it stores, and reads only encrypted content.

        Its methods are those of the client. Content becomes age files, which the commands ``age``
        and ``rage`` open too; sizes and progress are those of the content. The view uses the
        connections of this client, and closing it closes nothing.

        Args:
            recipients: Who can read it: texts such as ``age1pq1…``, names of keys that ``holdfast
                keygen`` made, or paths of key files, with a slash in them. By default those of the
                configuration, or your identities if there are none.
            identities: What opens it, in the same forms. By default those of the configuration.
            write_only: Whether none of the identities has to open what is stored.

        Example:
            >>> from holdfast.content.age.keys import Identity
            >>> key = Identity.generate()
            >>> private = client.encrypted(identities=key.text)
            >>> record = private.store({"tide": "high"})
            >>> private.retrieve(record.cid)
            {'tide': 'high'}
        """
        from holdfast.content.age.keyring import Keyring  # noqa: PLC0415
        from holdfast.disk.key_files import load_keys  # noqa: PLC0415

        changes = wrap_secrets({"recipients": recipients, "identities": identities})
        del recipients, identities  # one of them may be secret
        changes = {name: value for name, value in changes.items() if value is not None}
        config = self._config.with_options(**changes)
        keys = load_keys(config.recipients or (), config.identities)
        return self._encrypted(Keyring(*keys, write_only=write_only))

    def _encrypted(self, keys: "Keyring") -> Self:
        """Return the view with these keys."""
        from holdfast._sync.providers.encrypted import EncryptedProvider  # noqa: PLC0415

        self._check_open()
        view = type(self)(EncryptedProvider(self._provider.stored, keys), config=self._config)
        view._groups = self._groups  # noqa: SLF001 - our own
        return view

    def _view_for(self, options: StoreOptions | Mapping[str, Any] | None) -> Self | None:
        """Return the view that stores content as `options` say; None if this client does."""
        if not StoreOptions.of(options).encrypt or self._provider.supports("share"):
            return None
        if self._config.recipients is None and self._config.identities is None:
            arguments.warn_of_no_keys()
            return None
        if self._own_view is None:
            self._own_view = self.encrypted()
        return self._own_view

    def test_connection(self) -> bool:
        """Return True if the provider accepts the credentials; raise an error otherwise.

        Example:
            >>> client.test_connection()
            True
        """
        self._check_open()
        self._provider.test_authentication()
        return True

    def url(self, cid: str) -> str:
        """Return a link to `cid` that can be shared; no request is sent.

        Example:
            >>> record = client.store([1, 2, 3])
            >>> client.url(record.cid)
            'ipfs://bafkreifgcxxk5yq54ulz3yea32gdauwi3kibcocanotryogagkcf67ku6q'
        """
        return self._provider.url(Reference.parse(cid))

    def close(self) -> None:
        """Close the connections of a client that `init` made. Closing it again has no effect.

        It waits until `store_many` and the like have finished the items that they work on.
        """
        self._closed = True
        try:
            for group in list(self._groups):
                group.finish(ClientClosedError())
        finally:
            if self._owns_provider:
                self._passed.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = self._provider.where() if hasattr(self, "_provider") else ""
        at = f" at {single_line(where)}" if where else ""
        state = ", closed" if self._closed else ""
        return f"<{type(self).__name__}: {type(self._passed).__name__}{at}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied: it holds connections and a token; "
            "make one with init() where it is needed, or use with_options() to share connections"
        )

    if not TYPE_CHECKING:  # type checkers report unknown attributes only without it

        def __getattr__(self, name: str) -> Any:
            """Name the method, to who calls it by another word."""
            word = name.lower().replace("_", "")
            use = next((one for one, words in OTHER_METHODS.items() if word in words.split()), None)
            if use is None:
                return super().__getattribute__(name)  # raises the error of Python
            what = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{what}: use {use}", name=name)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError

    # JSON values, files and messages

    def store(
        self,
        data: T,
        options: StoreOptions | Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
    ) -> ClientRecord[T]:
        """Store a JSON-compatible value; raise SerializationError for any other.

        Args:
            data: The value.
            options: `StoreOptions` or a mapping. ``{"encrypt": True}`` encrypts the value if keys
                are configured.
            name: The name of the pin; by default ``client-`` and the time in milliseconds.
            keyvalues: Metadata of your own for the pin, by which `pins` can find it.

        Example:
            >>> record = client.store({"name": "Zoë", "tags": ["a", "b"]})
            >>> record.size
            31
        """
        self._check_open()
        if (view := self._view_for(options)) is not None:
            return view.store(data, name=name, keyvalues=keyvalues)
        text = json_text.to_text(data)
        added = self._put(Source.of_json(text), arguments.json_info(name, keyvalues))
        return _record(added, len(text), data)

    def _put(
        self, content: Source | FolderSource, info: PinInfo, progress: Progress | None = None
    ) -> Added:
        name = info.name if info.given else self._provider.default_name(info.name)
        if name != info.name:
            info = replace(info, name=name)
        return self._provider.put(content, info, progress)

    def retrieve(self, cid: str) -> Any:
        """Return the JSON value at `cid`: a CID, a path under one, or a URL with ``/ipfs/`` in it.

        Example:
            >>> record = client.store({"hello": "world"})
            >>> client.retrieve(f"https://ipfs.io/ipfs/{record.cid}")
            {'hello': 'world'}
        """
        self._check_open()
        return self._provider.get_json(Reference.parse(cid))

    def upload(
        self,
        file: Uploadable,
        options: StoreOptions | Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
        include_hidden: bool = False,
        exclude: Sequence[str] = (),
        ignore_file: str | None = IGNORE_FILE,
        progress: Progress | None = None,
    ) -> ClientRecord[None]:
        """Store a file: a path, bytes, an open binary file, a `Blob`, or an iterable of bytes.

        Given the path of a folder, store everything in it as one directory.

        Args:
            file: The content. It is streamed, and never held in memory as a whole. An open file is
                read from its current position. With asyncio, it may be an asynchronous iterable,
                such as the body of an incoming request. A source that can be read only once (a
                generator, a pipe) is not sent again when the connection breaks.
            options: `StoreOptions` or a mapping. ``{"encrypt": True}`` encrypts the content if keys
                are configured.
            name: The file name to send; by default the file's own, else ``client-file``.
            keyvalues: Metadata of your own for the pin, by which `pins` can find it.
            include_hidden: Whether names in a folder that begin with a dot are stored too.
            exclude: Patterns of names in a folder to leave out, in the syntax of gitignore, such as
                ``("*.tmp", "node_modules/")``. The record has the number of them.
            ignore_file: The name of a file in the folder with more such patterns, which come before
                `exclude`: the last pattern that matches decides. None reads no file.
            progress: Called with the bytes sent so far and the total, or None if not known.

        Example:
            >>> record = client.upload(b"hello", name="greeting.txt")
            >>> record.size
            5
        """
        self._check_open()
        arguments.check_progress(progress)
        view = self._view_for(options)
        source = open_upload(
            file, include_hidden=include_hidden, exclude=exclude, ignore_file=ignore_file
        )
        put = self._put if view is None else view._put  # noqa: SLF001 - our own
        if isinstance(source, FolderSource):
            info = arguments.folder_info(name, source.name, keyvalues)
            added = put(source, info, progress)
            return replace(_record(added, source.size, None), excluded=source.excluded)
        try:
            info = arguments.file_info(name, source.name, keyvalues)
            added = put(source, info, progress)
            size = source.bytes_read if source.size is None else source.size
        finally:
            if source.data is None:  # else there is no file to close
                run_blocking(source.close)
        return _record(added, size, None)

    def download(
        self,
        cid: str,
        to: str | os.PathLike[str] | None = None,
        *,
        progress: Progress | None = None,
        max_bytes: int | None = None,
    ) -> Blob:
        """Return the file at `cid`: a CID, a path under one, or a URL with ``/ipfs/`` in it.

        Args:
            cid: The file to read.
            to: The path to write it to. The file appears complete or not at all, and the blob reads
                from it. After an interruption, the verified bytes stay in `cache_path`, and the
                next download continues after them.
            progress: Called with the bytes received so far and the total, or None if not known.
            max_bytes: The size limit; a larger file is a TooLargeError. A file that the disk has no
                space for is an `OSError` in any case. Neither is begun.

        Example:
            >>> record = client.upload(b"hello")
            >>> blob = client.download(record.cid)
            >>> blob.read()
            b'hello'
        """
        self._check_open()
        arguments.check_download(to, progress, max_bytes)
        return self._provider.get_file(
            Reference.parse(cid), to=to, progress=progress, max_bytes=max_bytes
        )

    @opens
    def open(self, cid: str) -> ContentFile:
        """Return the file at `cid`, seekable; parts are fetched and verified as they are read.

        Example:
            >>> record = client.upload(b"low tide, high tide")
            >>> with client.open(record.cid) as file:
            ...     position = file.seek(-9, 2)
            ...     print(file.read())
            b'high tide'
        """
        self._check_open()
        return self._provider.require("open_file").open_file(Reference.parse(cid))

    def send(self, recipient_id: str, message: str) -> ClientRecord[ClientMessage]:
        """Store a message for `recipient_id` as plain JSON. Pass on the CID: it is not delivered.

        Example:
            >>> record = client.send("alice", "hi")
            >>> record.data.payload
            'hi'
        """
        self._check_open()
        arguments.check_message(recipient_id, message)
        built = ClientMessage(recipient_id=recipient_id, payload=message, timestamp=now_ms())
        record: ClientRecord[Any] = self.store(built.to_dict())
        return replace(record, data=built)

    def receive(self, cid: str) -> ClientMessage:
        """Return the message at `cid`; raise SerializationError for JSON of another shape.

        Example:
            >>> record = client.send("alice", "hi")
            >>> message = client.receive(record.cid)
            >>> message.recipient_id, message.payload
            ('alice', 'hi')
        """
        return ClientMessage.from_dict(self.retrieve(cid))

    # Many values or files, several at a time

    def store_many(self, values: Items[T], *, concurrency: int = 8) -> Outcomes[T, ClientRecord[T]]:
        """Store many JSON values, and yield an `Outcome` for each as soon as it is stored.

        Args:
            values: The values. They are read one at a time, as needed, so there may be any number.
            concurrency: How many are stored at the same time, from 1 to 100.

        Example:
            >>> cids = {}
            >>> for outcome in client.store_many([{"id": 1}, {"id": 2}]):
            ...     cids[outcome.index] = outcome.result().cid
            >>> sorted(cids)
            [0, 1]
        """
        return self._many(self._worker().store, values, "store", concurrency)

    def upload_many(
        self, files: Items[File], *, concurrency: int = 8, **selection: Unpack[FolderSelection]
    ) -> Outcomes[File, ClientRecord[None]]:
        """Upload many files, and yield an `Outcome` for each as soon as it is uploaded.

        One that fails does not stop the others: its outcome has the error.

        Args:
            files: The files, each as for `upload`, or pairs of a name and a file. They are read one
                at a time, as needed, so there may be any number.
            concurrency: How many are uploaded at the same time, from 1 to 100.
            selection: `include_hidden`, `exclude` and `ignore_file`, as for `upload`.

        Example:
            >>> from pathlib import Path
            >>> with client.upload_many(Path("photos").glob("*.png")) as outcomes:
            ...     for outcome in outcomes:
            ...         print(outcome.item.name, outcome.error or outcome.result().size)
            kelp.png 7
        """
        worker = self._worker()

        def upload(item: File) -> ClientRecord[None]:
            name, file = arguments.name_and_file(item)
            return worker.upload(file, name=name, **selection)

        return self._many(upload, files, "upload", concurrency)

    def revoke_many(
        self, cids: Items[str], *, concurrency: int = 8, missing_ok: bool = False
    ) -> Outcomes[str, bool]:
        """Unpin many CIDs, and yield an `Outcome` for each as soon as it is unpinned.

        Args:
            cids: The CIDs. They are read one at a time, as needed, so there may be any number.
            concurrency: How many are unpinned at the same time, from 1 to 100.
            missing_ok: Whether the result for a CID that is not pinned is False, not an error.

        Example:
            >>> record = client.store([1, 2])
            >>> for outcome in client.revoke_many([record.cid]):
            ...     print(outcome.error or "revoked")
            revoked
        """
        revoke = partial(self._worker().revoke, missing_ok=missing_ok)
        return self._many(revoke, cids, "revoke", concurrency)

    def _worker(self) -> Self:
        """Return a client for items, which stays open until those under way are finished."""
        worker = object.__new__(type(self))  # a subclass may have another constructor
        worker.__dict__.update(self.__dict__)
        return worker

    def _many(
        self,
        function: Callable[[Item], Result],
        items: Items[Item],
        single: str,
        concurrency: int,
        on_end: Callable[[], object] | None = None,
    ) -> Outcomes[Item, Result]:
        self._check_open()
        arguments.check_several(items, single)
        arguments.check_concurrency(concurrency)
        group = WorkGroup(function, items, concurrency)
        self._groups.add(group)
        return Outcomes(group, on_end)

    # Directories

    def entries(self, cid: str, *, details: bool = False) -> list[Entry]:
        """Return the entries of the directory at `cid`, in the directory's order.

        Args:
            cid: A CID, a path under one, or a URL with ``/ipfs/`` in it.
            details: Whether to read the root of each entry, several at a time, for its kind and
                size. Without, both are None, except for files of one raw block.

        Example:
            >>> record = client.upload("photos")
            >>> [entry.name for entry in client.entries(record.cid)]
            ['kelp.png']
        """
        return EntryList([entry for entry in self.iter_entries(cid, details=details)])

    def iter_entries(self, cid: str, *, details: bool = False) -> Iterator[Entry]:
        """Yield the entries of the directory at `cid` as its blocks arrive.

        A directory of a million entries takes little memory. The arguments are those of `entries`.

        Example:
            >>> record = client.upload("photos")
            >>> for entry in client.iter_entries(record.cid, details=True):
            ...     print(entry.name, entry.size)
            kelp.png 7
        """
        self._check_open()
        provider = self._provider.require("iter_entries")
        return provider.iter_entries(Reference.parse(cid), details=details)

    def stat(self, cid: str) -> Entry:
        """Return the kind and the size of the content at `cid`; only its root is read.

        The size is the bytes of a file, or of the target of a symbolic link; None for a directory.

        Example:
            >>> record = client.upload("photos")
            >>> (client.stat(record.cid)).kind
            'directory'
        """
        self._check_open()
        return self._provider.require("stat").stat(Reference.parse(cid))

    def download_folder(
        self,
        cid: str,
        to: str | os.PathLike[str],
        *,
        symlinks: bool = False,
        portable: bool = False,
        progress: Progress | None = None,
        max_bytes: int | None = None,
    ) -> Path:
        """Download the directory at `cid` to the new folder `to`, and return its path.

        The folder appears complete and verified, or not at all. Until it is complete, its files are
        in a hidden folder beside `to`. After an interruption, the same call continues with them.

        Args:
            cid: A CID, a path under one, or a URL with ``/ipfs/`` in it.
            to: The folder to make. An empty one that is there is replaced.
            symlinks: Whether to write symbolic links, if they stay inside. Otherwise a link is an
                error.
            portable: Whether to refuse names that some other system cannot have, such as ``CON``
                or two names that differ only in case. Names that this disk cannot have are always
                refused.
            progress: Called with the bytes that are there so far, and None; at the end with the
                total.
            max_bytes: The largest number of bytes of all files; more are a TooLargeError. A folder
                that the disk has no space for is an `OSError` in any case.

        Example:
            >>> record = client.upload("photos")
            >>> folder = client.download_folder(record.cid, "copy")
            >>> [path.name for path in folder.iterdir()]
            ['kelp.png']
        """
        self._check_open()
        arguments.check_download(to, progress, max_bytes)
        # Few programs need them, and should not wait for the modules.
        from holdfast._sync.folder_download import FolderOptions, download_folder  # noqa: PLC0415

        options = FolderOptions(symlinks=symlinks, portable=portable, max_bytes=max_bytes)
        return download_folder(self._provider, Reference.parse(cid), to, options, progress)

    # Pins

    def pin(
        self,
        cid: str,
        *,
        name: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
        wait: float = 0.0,
        progress: OnPinProgress | None = None,
    ) -> Pin:
        """Pin content that exists already; return the pin, whose `state` says how far it is.

        Raise ProviderError if the provider cannot pin it. The embedded store fetches what it lacks
        through the gateways of `gateway_url`; without one, it pins only what it has.

        Args:
            cid: The CID to pin, with everything below it.
            name: The name of the pin.
            keyvalues: Metadata of your own for the pin, by which `pins` can find it.
            wait: The seconds to wait until the content is pinned. After them, the pin is returned
                with the state ``queued`` or ``pinning``, and the provider continues.
            progress: Called with a `PinProgress` while the content is fetched: with the blocks and
                bytes so far by the embedded store and Kubo, and during `wait` with the state, and
                the status at each node of a cluster.

        Example:
            >>> record = client.upload(b"hello")
            >>> pin = client.pin(record.cid, name="report", wait=30)
            >>> pin.state
            'pinned'
        """
        self._check_open()
        arguments.check_progress(progress)
        info = replace(arguments.pin_info(name, keyvalues), progress=progress)
        arguments.check_wait(wait)
        provider = self._provider.require("pin")
        pin = provider.pin(Reference.parse_cid(cid), info)
        return wait_for_pin(provider, pin, wait, progress)

    def update(
        self, cid: str, *, name: str | None = None, keyvalues: Mapping[str, Any] | None = None
    ) -> Pin:
        """Change the name or the key-values of a pin; raise NotFoundError if it is not pinned.

        Args:
            cid: The CID of the pin.
            name: The new name; None keeps the old one.
            keyvalues: Key-values to add or replace. The value None removes a key, and keys that
                are left out stay.

        Example:
            >>> record = client.store([1, 2], keyvalues={"draft": True, "year": 2026})
            >>> pin = client.update(record.cid, name="final", keyvalues={"draft": None})
            >>> pin.name, pin.keyvalues
            ('final', {'year': 2026})
        """
        self._check_open()
        name, changed = arguments.pin_changes(name, keyvalues)
        provider = self._provider.require("update_pin")
        return provider.update_pin(Reference.parse_cid(cid), name=name, keyvalues=changed)

    def revoke(self, cid: str, *, only_at: str | None = None, missing_ok: bool = False) -> bool:
        """Unpin `cid` and return True; raise NotFoundError if it is not pinned.

        Copies on other nodes and in caches may remain.

        Args:
            cid: The CID to unpin.
            only_at: With the provider `copies`, the name of a member: it is unpinned there alone.
                Raise ConfigError if fewer than `need` other sites are proven to have it now.
            missing_ok: Whether to return False, and raise no error, if it is not pinned.

        Example:
            >>> record = client.store({"hello": "world"})
            >>> client.revoke(record.cid)
            True
            >>> client.revoke(record.cid, missing_ok=True)
            False
        """
        self._check_open()
        try:
            if only_at is None:
                self._provider.delete(Reference.parse_cid(cid))
            else:
                provider = self._provider.require("delete_at")
                provider.delete_at(Reference.parse_cid(cid), only_at)
        except NotFoundError:
            if not missing_ok:
                raise
            return False
        return True

    def pins(
        self,
        *,
        name: str | None = None,
        cid: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> list[Pin]:
        """Return your pins at the provider, newest first, as a list.

        The arguments are those of `iter_pins`, which does not hold all of them at a time.

        Example:
            >>> record = client.store([1, 2], name="report-2026")
            >>> [pin.name for pin in client.pins(name="report", limit=10)]
            ['report-2026']
        """
        self._check_open()
        pin_filter = arguments.pin_filter(
            name=name, cid=cid, keyvalues=keyvalues, since=since, until=until, limit=limit
        )
        if _is_by_name(pin_filter):
            provider = self._provider.require("list_pins")
            return Pins(provider.list_pins(name=pin_filter.name, limit=limit))
        pins = _find(self._provider, pin_filter, limit)
        if isinstance(pins, PinStream):
            return Pins(pins.read_all())
        return Pins([pin for pin in pins])

    def iter_pins(
        self,
        *,
        name: str | None = None,
        cid: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> Iterator[Pin]:
        """Yield your pins at the provider, newest first; pages are fetched as they are needed.

        Args:
            name: Only pins whose name contains this text. Whether upper and lower case differ
                depends on the provider: they do at `kubo` and `cluster`.
            cid: Only pins of this CID.
            keyvalues: Only pins that have all of these key-values. A number equals its text.
            since: Only pins made at this time or later: a datetime, a text such as ``2026-01-31``
                or ``2026-01-31T12:00``, or milliseconds since 1970. Without a time zone, it is in
                UTC.
            until: Only pins made at this time or earlier. A text with a day alone includes all of
                that day.
            limit: The largest number of pins; None for all.

        Example:
            >>> from datetime import UTC, datetime, timedelta
            >>> record = client.store([1, 2], name="May", keyvalues={"kind": "report"})
            >>> week = datetime.now(UTC) - timedelta(days=7)
            >>> for pin in client.iter_pins(keyvalues={"kind": "report"}, since=week):
            ...     print(pin.name)
            May
        """
        self._check_open()
        pin_filter = arguments.pin_filter(
            name=name, cid=cid, keyvalues=keyvalues, since=since, until=until, limit=limit
        )
        return _find(self._provider, pin_filter, limit)

    def usage(self) -> Usage:
        """Return how many pins and bytes the provider keeps, and how many bytes it may keep.

        Values that it does not report are None. Raise UnsupportedError if the provider reports
        none.

        Example:
            >>> record = client.upload(b"hello")
            >>> (client.usage()).pins
            1
        """
        self._check_open()
        return self._provider.require("usage").usage()

    def health(
        self,
        *,
        sample: str = "2%",
        fix: bool = False,
        adopt: bool = False,
        progress: Progress | None = None,
    ) -> Iterator[Health]:
        """Check the members of provider `copies`, and yield a `Health` for each CID.

        Content that was revoked while a member was down is removed there first. The list of each
        member is read once: it lacks what it does not list. Then the members are asked for random
        blocks of a sample of the pins. Of the other pins, the last proof counts.

        Args:
            sample: A share such as ``2%``: of the pins, but at least 300 of them, and of the blocks
                of each. Or a part of all blocks such as ``3/30``, or a size such as ``500M``.
            fix: Whether content at fewer than `want` sites is copied to others. A member that lacks
                a block is then asked for blocks of everything that it lists.
            adopt: Whether to take care of the other pins of the members too, from now on.
            progress: Called with the number of pins that are done, and of all pins.

        Example:
            >>> from holdfast.providers import CopiesProvider
            >>> one = Client.init(path="one")
            >>> other = Client.init(path="other")
            >>> provider = CopiesProvider([one, other], sites=["a", "b"], path="ledger")
            >>> record = Client(provider).store([1, 2], name="tides")
            >>> for report in Client(provider).health(fix=True):
            ...     print(report.name, report.proven)
            tides ('local', 'local-2')
        """
        self._check_open()
        arguments.check_progress(progress)
        provider = self._provider.require("check_health")
        chosen, progress = arguments.check_sample(sample), progress or no_progress
        return provider.check_health(chosen, fix=fix, adopt=adopt, progress=progress)

    # Readers of encrypted content

    def share(
        self,
        cid: str,
        recipients: str | Sequence[str],
        *,
        name: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> ClientRecord[None]:
        """Let more people read encrypted content; return the record of its new CID.

        This is a method of the view that `encrypted` returns. Nothing is encrypted again: a file
        gets a new header, under a new CID, and its content stays where it is. The readers that it
        had can open the new CID too. The old CID stays pinned, and does not open for the new
        readers. Sharing cannot be undone.

        In a folder, every file gets a new header. A provider that cuts files in its own way is an
        UnsupportedError, but for `pinata`, which gets up to 90 MiB of public content again.

        Args:
            cid: The file or folder. One of your identities must open it.
            recipients: The new readers: one or several, in the same forms as for `encrypted`.
            name: The name of the new pin, which others can read; by default a random one.
            keyvalues: Metadata of your own for the pin, which others can read.
            progress: Called with the number of files that are done, and of all files; first with 0,
                before anything is sent.

        Example:
            >>> from holdfast.content.age.keys import Identity
            >>> mine, yours = Identity.generate(), Identity.generate()
            >>> private = client.encrypted(identities=[mine.text])
            >>> record = private.store({"tide": "high"})
            >>> shared = private.share(record.cid, [yours.recipient.text])
            >>> client.encrypted(identities=[yours.text]).retrieve(shared.cid)
            {'tide': 'high'}
        """
        readers = wrap_secret("recipients", recipients)
        del recipients  # an identity by mistake, which no frame of an error may show
        self._check_open()
        arguments.check_progress(progress)
        provider = self._provider.require("share")
        info = arguments.file_info(name, provider.default_name(""), keyvalues)
        from holdfast.disk.key_files import load_keys  # noqa: PLC0415

        new = check_recipients("recipients", readers) or ()
        keys, _ = run_blocking(load_keys, new, None)
        texts = [key.text for key in keys]
        added, size = provider.share(Reference.parse(cid), texts, info, progress)
        return _record(added, size, None)

    def readers(self, cid: str) -> dict[str, int]:
        """Return how many keys open an encrypted file, by their kind. Their owners are not known.

        This is a method of the view that `encrypted` returns. ``mlkem768x25519`` is the kind of
        post-quantum keys, ``X25519`` that of classic ones.

        Example:
            >>> from holdfast.content.age.keys import Identity
            >>> private = client.encrypted(identities=[Identity.generate().text])
            >>> record = private.store({"tide": "high"})
            >>> private.readers(record.cid)
            {'mlkem768x25519': 1}
        """
        self._check_open()
        return self._provider.require("readers").readers(Reference.parse(cid))

    # Copies at another provider, under the same CIDs

    def copy(
        self,
        cid: str,
        *,
        to: "Client",
        pin_by_cid: bool | None = None,
        wait: float = PIN_WAIT,
        progress: Progress | None = None,
        proof: bool = False,
        sample: str = "2%",
    ) -> Copied:
        """Copy everything under `cid` to the provider of the client `to`, under the same CID.

        The name and the key-values are copied too. If the target has the content already, only
        these are set. A target that takes archives (`local`, `kubo`, `cluster`) gets the
        blocks, each verified, all of them or none. Another one gets an upload if a known layout
        gives the same CID, else it is asked to fetch the content by its CID. If nothing works,
        raise UnsupportedError.

        A list of pins does not show that the content is there. With `proof`, the target is asked
        for random blocks, and is sent everything again if some are missing. `Copied.proof` has
        the result.

        Args:
            cid: The content to copy, with everything below it.
            to: A client for the target.
            pin_by_cid: Whether the target may fetch by its CID what it cannot be sent. By default
                it may, if this provider is a service with a public gateway, or a node that is not
                used offline.
            wait: The seconds to wait until the target has fetched it.
            progress: Called with the bytes that were sent so far, and the size if it is known.
            proof: Whether to prove that the target has it.
            sample: The blocks to ask for: a share of them such as ``2%``, which is at least 4 and
                at most 64 blocks; the third of 30 parts, ``3/30``; or a size such as ``500M``.

        Example:
            >>> record = client.upload(b"hello")
            >>> with Client.init(path="other-store") as other:
            ...     copied = client.copy(record.cid, to=other, proof=True)
            >>> copied.how, copied.proof
            ('archive', 'proven')
        """
        self._check_open()
        arguments.check_progress(progress)
        copier = self._copier(to, sample if proof else None, pin_by_cid=pin_by_cid, wait=wait)
        return copier.copy(cid, no_progress if progress is None else progress)

    def copy_many(
        self,
        items: Items[Copyable],
        *,
        to: "Client",
        journal: str | os.PathLike[str] | None = None,
        concurrency: int = 8,
        pin_by_cid: bool | None = None,
        wait: float = PIN_WAIT,
        progress: Progress | None = None,
        proof: bool = False,
        sample: str = "2%",
    ) -> Outcomes[Copyable, Copied]:
        """Copy many CIDs, each as `copy` does, and yield an `Outcome` for each when it is done.

        One that fails does not stop the others: its outcome has the error, such as a NotFoundError
        for a CID that no gateway has. What the target has is not sent again, so a copy that was
        interrupted continues if you call it again. The target is asked for every CID, also with a
        `journal`, which says what an earlier call copied. Only if the target cannot be asked is
        the journal trusted: then `checked` is False.

        Args:
            items: CIDs, or a `Pin` for each that has a name or key-values of its own at the target.
                They are read one at a time, as needed, so there may be any number.
            to: A client for the target.
            journal: The path of a file that notes what is copied. It belongs to this source and
                this target: the id of a local store, or an address. One call at a time can use
                it. Remove it when all is copied.
            concurrency: How many are copied at the same time, from 1 to 100.
            pin_by_cid: As for `copy`.
            wait: As for `copy`.
            progress: Called with the bytes of all items that were sent so far, and None.
            proof: As for `copy`. What the journal says is never a proof.
            sample: As for `copy`.

        Example:
            >>> record = client.store([1, 2], name="tides")
            >>> with Client.init(path="other-store") as other:
            ...     for outcome in client.copy_many([record.cid], to=other):
            ...         print(outcome.error or outcome.record.name)
            tides
        """
        from holdfast._sync.folder_download import Tally  # noqa: PLC0415
        from holdfast.disk.copy_journal import CopyJournal  # noqa: PLC0415

        self._check_open()
        arguments.check_progress(progress)
        arguments.check_several(items, "copy")
        copier = self._copier(to, sample if proof else None, pin_by_cid=pin_by_cid, wait=wait)
        function = partial(_copy_one, copier, Tally(progress))
        if journal is None:
            return self._many(function, items, "copy", concurrency)
        copier.journal = CopyJournal(journal)
        items = _journaled(copier, iterate(items))
        return self._many(function, items, "copy", concurrency, copier.journal.close)

    def copy_pins(
        self,
        *,
        to: "Client",
        journal: str | os.PathLike[str] | None = None,
        concurrency: int = 8,
        pin_by_cid: bool | None = None,
        wait: float = PIN_WAIT,
        progress: Progress | None = None,
        proof: bool = False,
        sample: str = "2%",
        name: str | None = None,
        cid: str | None = None,
        keyvalues: Mapping[str, Any] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> Outcomes[Pin, Copied]:
        """Copy all pins of this provider, or those that you choose, as `copy_many` does.

        Args:
            to: A client for the target.
            journal: As for `copy_many`.
            concurrency: How many are copied at the same time, from 1 to 100.
            pin_by_cid: As for `copy`.
            wait: As for `copy`.
            progress: As for `copy_many`.
            proof: As for `copy_many`.
            sample: As for `copy`.
            name: Only pins whose name contains this text. This and what follows is as for
                `iter_pins`.
            cid: Only pins of this CID.
            keyvalues: Only pins that have all of these key-values.
            since: Only pins made at this time or later.
            until: Only pins made at this time or earlier.
            limit: The largest number of pins; None for all.

        Example:
            >>> record = client.store([1, 2], name="tides")
            >>> with Client.init(path="other-store") as other:
            ...     for outcome in client.copy_pins(to=other, journal="copy.journal"):
            ...         print(outcome.item.name, outcome.error)
            tides None
        """
        self._check_open()
        pin_filter = arguments.pin_filter(
            name=name, cid=cid, keyvalues=keyvalues, since=since, until=until, limit=limit
        )
        return self.copy_many(
            _find(self._provider.stored, pin_filter, limit),
            to=to,
            journal=journal,
            concurrency=concurrency,
            pin_by_cid=pin_by_cid,
            wait=wait,
            progress=progress,
            proof=proof,
            sample=sample,
        )

    def _copier(
        self, to: "Client", sample: str | None, *, pin_by_cid: bool | None, wait: float
    ) -> "Copier":
        from holdfast._sync.copying import Copier  # noqa: PLC0415

        if not isinstance(to, Client):
            raise TypeError(f"to must be a client of the same kind, not {type(to).__name__}")
        arguments.check_wait(wait)
        to._check_open()  # noqa: SLF001 - our own
        target = to._provider  # noqa: SLF001
        if not any(map(target.supports, ("import_archive", "put_file", "pin"))):
            raise target.refusal("put_file")
        chosen = None if sample is None else arguments.check_sample(sample)
        return Copier(self._provider, target, chosen, pin_by_cid=pin_by_cid, wait=wait)

    # Links that are signed and work for a while

    def signed_url(self, cid: str, *, expires: float | timedelta) -> str:
        """Return a link to private content that anyone can use until it expires.

        The link is a credential: pass it on over secure channels only.

        Args:
            cid: The CID, or a path under it.
            expires: How long the link works: seconds, or a timedelta.

        Example:
            >>> record = client.upload(b"only for us", name="report.txt")
            >>> link = client.signed_url(record.cid, expires=3600)
            >>> link.startswith("http")
            True
        """
        self._check_open()
        seconds = arguments.link_seconds(expires)
        provider = self._provider.require("signed_url")
        return provider.signed_url(Reference.parse(cid), expires=seconds)

    def signed_upload_url(
        self,
        *,
        expires: float | timedelta,
        max_bytes: int | None = None,
        types: Iterable[str] | None = None,
    ) -> str:
        """Return a link to which others can upload without the provider's credential.

        Give it to a browser, for example, which sends the file in a form. Uploads go to the
        network and the group of this client.

        Args:
            expires: How long the link works: seconds, or a timedelta.
            max_bytes: The largest file that the link accepts.
            types: The media types that the link accepts, such as ``["image/*"]``; None for any.

        Example:
            >>> link = client.signed_upload_url(expires=60, types=["image/*"])
            >>> link.startswith("http")
            True
        """
        self._check_open()
        seconds = arguments.link_seconds(expires)
        kinds = arguments.media_types(types)
        arguments.check_most(max_bytes, "max_bytes", "no limit")
        provider = self._provider.require("signed_upload_url")
        return provider.signed_upload_url(expires=seconds, max_bytes=max_bytes, types=kinds)


def _record(added: Added, size: int, data: T) -> ClientRecord[T]:
    before: Any = {"duplicate": added.duplicate, "earlier_name": added.earlier_name}
    return ClientRecord(cid=added.cid, timestamp=now_ms(), data=data, size=size, **before)


def _find(provider: "BaseProvider", pin_filter: PinFilter, limit: int | None) -> Iterator[Pin]:
    if provider.supports("find_pins"):
        return provider.find_pins(pin_filter, limit=limit)
    provider.require("list_pins")
    if not _is_by_name(pin_filter):
        provider.require("find_pins")
    return _listed(provider, pin_filter.name, limit)


def _listed(provider: "BaseProvider", name: str | None, limit: int | None) -> Iterator[Pin]:
    """Yield the pins of a provider that can only list them at once."""
    for pin in provider.list_pins(name=name, limit=limit):
        yield pin


def _is_by_name(pin_filter: PinFilter) -> bool:
    """Return whether pins are wanted by their name at the most, which every list can do."""
    return pin_filter == PinFilter(name=pin_filter.name)


def _copy_one(copier: "Copier", tally: "Tally", item: str | Pin) -> Copied:
    return copier.copy(item, tally.of_file())


def _journaled(copier: "Copier", items: Iterator[Item]) -> Iterator[Item]:
    """Open the journal, then yield the items."""
    try:
        run_blocking(copier.open_journal)
        for item in items:
            yield item
    finally:
        if hasattr(items, "close"):
            items.close()
