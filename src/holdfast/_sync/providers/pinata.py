# WARNING: this file is generated from src/holdfast/_async/providers/pinata.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for the service's v3 API: public or private files, groups, and signed links."""

from collections.abc import Iterable
from math import inf
from typing import Final, cast

from holdfast._sync.pin_waiting import wait_for_pin
from holdfast._sync.providers.large_upload import LargeUpload
from holdfast._sync.providers.pinning import PinProvider
from holdfast._sync.reads.gateway_reader import GatewayReader, LinkReader, read_gateways
from holdfast._sync.reads.reader import Reader
from holdfast._sync.runtime import at_end, compute, run_blocking, run_interruptible
from holdfast._sync.session import Session
from holdfast._sync.upload_sources import open_upload
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.config.secret import Secret
from holdfast.content.profiles import KUBO_LEGACY_CIDV1
from holdfast.content.reference import Reference
from holdfast.disk.copy_journal import Place
from holdfast.disk.unfinished_uploads import SavedUpload, UnfinishedUploads
from holdfast.errors import RequestTimeoutError, UnsupportedError, VerificationError
from holdfast.hints import advise
from holdfast.protocol import pinata
from holdfast.protocol.gateway import Gateway
from holdfast.protocol.http import SignedURL
from holdfast.protocol.pinata import PinataAPI
from holdfast.records import Added, Pin, PinInfo, now_ms
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.hashed_source import WrittenLayout
from holdfast.sources.sources import Progress, Source

PUBLIC_PATH: Final = "/ipfs"
READ_LINK: Final = 3600  # seconds for which a link to a file that we read works


class PinataProvider(PinProvider):
    """Pins through the service's v3 API, for which the service makes its newer keys.

    `provider_options` may have:

    - ``network``: ``"public"``, the default, or ``"private"``. Private files are on no public
      gateway; they are read through links that are signed for `gateway_url`.
    - ``group``: The id of a group, to which new files are added.
    - ``expires``: The seconds after which the service deletes new files.
    - ``upload_url``: The address for uploads. The default is the service's; where only
      `pin_api_url` is set, it is the path ``/v3`` there.
    - ``spool``: Whether a source that can be read only once, such as a pipe, is first written to a
      temporary file: True, the default, or False. Without it, such a source may have up to 90 MiB.

    JSON is stored as a file of exactly the bytes that are sent, so its CID is known beforehand.
    Files over 90 MiB are sent in pieces. If such an upload is interrupted, call it again: it
    continues, even in another process. Folders are sent by the older call ``pinFileToIPFS``.

    Example:
        >>> from holdfast import ClientConfig
        >>> config = ClientConfig(provider="pinata", provider_token="eyJhbGciOi")
        >>> PinataProvider(config).url("bafkqaaa")
        'https://gateway.pinata.cloud/ipfs/bafkqaaa'
    """

    _api: PinataAPI

    def __init__(self, config: ClientConfig, *, session: Session | None = None) -> None:
        self._options = pinata.PinataOptions.of(config)
        super().__init__(config, session=session)
        if config.profile is None and config.cid_version == 1:
            self._layout = WrittenLayout(KUBO_LEGACY_CIDV1)

    def make_reader(self, config: ClientConfig) -> Reader:
        """Return a reader of the gateways, or of signed links to private files."""
        if self._is_private:
            return LinkReader(self._sign_reader)
        return super().make_reader(config)

    def make_api(self, config: ClientConfig, token: Secret) -> PinataAPI:
        """Return the v3 API for `config`."""
        root, version = pinata.api_root(config), config.cid_version
        return PinataAPI(root, token, cid_version=version, options=self._options, clock=now_ms)

    def supports(self, operation: str) -> bool:
        """Return whether the provider has an operation. Links to private files give no blocks."""
        of_public = {"export_archive", "import_whole"}
        is_missing = operation == "usage" or (self._is_private and operation in of_public)
        return not is_missing and super().supports(operation)

    def is_on_network(self) -> bool:
        """Return whether the files are public, and a gateway too."""
        return not self._is_private and super().is_on_network()

    @property
    def _is_private(self) -> bool:
        return self._options.network == "private"

    # Writing

    def add_json(self, source: Source, data: bytes, info: PinInfo, call: Call) -> Added:
        """Store JSON as a file. Raise VerificationError if the CID is of other bytes."""
        added = self.run(self._api.add_json(data, info), call)
        if self.config.verify:
            call.cid = added.cid
            cid = Reference.parse(added.cid).cid
            compute(len(data), self._layout.compare_json, source, cid)
        return added

    def add_file(self, source: Source, info: PinInfo, call: Call, progress: Progress) -> Added:
        """Store the bytes of `source` as a file; compare its CID as `PinProvider` does.

        A large file is sent in pieces. If an earlier call was interrupted, continue after it.
        """
        if source.seekable and source.size is not None:
            return self._add_sized(source, source.size, info, call, progress)
        if not self._options.spool:
            return super().add_file(source, info, call, _limited(progress))
        spooled = self.spool(source, pinata.LARGEST_FILE)
        with at_end(spooled.close):
            return self._add_sized(spooled, spooled.size or 0, info, call, progress)

    def _add_sized(
        self, source: Source, size: int, info: PinInfo, call: Call, progress: Progress
    ) -> Added:
        if size <= pinata.LARGEST_FORM:
            return super().add_file(source, info, call, progress)
        metadata = self._api.metadata(info, source.type)
        identity = run_blocking(source.identify)

        def open_saved() -> SavedUpload:
            account = Place(self._options.upload_url, pinata.account_id(self._api.token))
            return UnfinishedUploads().open(
                endpoint=account.name,
                account=account.fingerprint(account.name),
                source=identity,
                metadata=self._api.identity(metadata, info),
                restore=source.restore_states,
            )

        saved = run_blocking(open_saved)
        try:
            parts = self._layout.hashed(source, verify=self.config.verify)
            upload = LargeUpload(
                *(self._session, self.run, self._api, parts, size, saved, call, progress),
                metadata=metadata,
                identity=identity,
            )
            cid, location = upload.send()
            call.cid = cid
            if self.config.verify:
                run_interruptible(parts.catch_up, size)
                run_blocking(self._layout.compare, parts, Reference.parse(cid).cid)
            added = self.run(self._api.describe(cid, location, info), call)
            run_blocking(saved.remove)
            return added
        except VerificationError:
            run_blocking(saved.remove)  # the service has other bytes: begin anew
            raise
        finally:
            run_blocking(saved.close)

    def add_folder(
        self, folder: FolderSource, info: PinInfo, call: Call, progress: Progress
    ) -> Added:
        """Store a folder by the older call.

        Raise UnsupportedError for folders that are private or expire: v3 has no call for folders,
        and the older call knows neither.
        """
        if self._is_private:
            raise UnsupportedError(
                "PinataProvider cannot store folders in the private network; upload the files one "
                "by one, or use the public network"
            )
        if self._options.expires is not None:
            raise UnsupportedError(
                "PinataProvider cannot store folders that expire; leave the option expires out"
            )
        return super().add_folder(folder, info, call, progress)

    def import_whole(self, cid: str, pieces: Iterable[bytes], info: PinInfo) -> Added:
        """Send an archive, which needs a paid plan, and wait until its root is listed."""
        source = cast("Source", open_upload(pieces))
        with self.call("import", cid, total=False) as call:
            with self.spool(source) as archive:
                if (archive.size or 0) > pinata.LARGEST_FORM:
                    raise UnsupportedError("it is too large to share; upload it for all readers")
                self.run(self._api.add_archive(archive, info), call)
            pin = Pin(id="", cid=cid, size=None, state="queued")
            pin = wait_for_pin(self, pin, self.config.timeouts.total or inf)
        if pin.state != "pinned":
            words = f"the service has not listed {cid} yet; look for it in the list of pins"
            raise RequestTimeoutError(words, sent=True)
        return Added(cid=cid, duplicate=False, pin_id=pin.id)

    # Links, and reads through them

    def url(self, cid: str) -> str:
        """Return the address of public content at the first gateway."""
        if self._is_private:
            raise advise(
                UnsupportedError("private content has no public address; sign a link"),
                "signed_url returns a link that anyone can use until it expires",
                "`holdfast link CID` writes a link that anyone can use until it expires",
            )
        return super().url(cid)

    def signed_url(self, cid: str, *, expires: int) -> str:
        """Return a link to a private file, which works for `expires` seconds."""
        if not self._is_private:
            raise UnsupportedError("public content needs no signed link; use url")
        reference = Reference.parse(cid)
        with self.call("signed_url", cid) as call:
            # A plain text, which is shown as it is.
            return str(self._sign(self._private_urls[0], reference, expires, call))

    def signed_upload_url(
        self, *, expires: int, max_bytes: int | None, types: tuple[str, ...]
    ) -> str:
        """Return a link to which browsers and others can upload files without the key."""
        exchange = self._api.sign_upload(expires, max_bytes, types)
        with self.call("signed_upload_url") as call:
            return str(self.run(exchange, call))

    def _sign_reader(self, reference: Reference, call: Call) -> GatewayReader:
        """Return a reader of one private file, with a link for each gateway."""
        signed = [
            Gateway(url, link=self._sign(url, reference, READ_LINK, call))
            for url in self._private_urls
        ]
        return read_gateways(self._session, self.config, signed)

    def _sign(self, base_url: str, reference: Reference, expires: int, call: Call) -> SignedURL:
        url = Gateway(base_url).url(reference)
        return self.run(self._api.sign_read(url, expires), call)

    @property
    def _private_urls(self) -> list[str]:
        """Where the gateways serve private files: ``/files`` in place of ``/ipfs``."""
        return [
            f"{url.removesuffix(PUBLIC_PATH)}/files" if url.endswith(PUBLIC_PATH) else url
            for url in self.config.gateway_url or ()
        ]


def _limited(progress: Progress) -> Progress:
    """Return a `progress` that ends an upload in one request when it becomes too large."""

    def check(sent: int, total: int | None) -> None:
        if sent > pinata.LARGEST_FORM:
            raise UnsupportedError(
                "a source that can be read only once may have up to 90 MiB here, and nothing was "
                "stored: write it to a file, or set the option spool"
            )
        progress(sent, total)

    return check
