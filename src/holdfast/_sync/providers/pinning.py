# WARNING: this file is generated from src/holdfast/_async/providers/pinning.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider of the spec: writes through a pinning HTTP API, reads through IPFS gateways."""

from functools import partial

from holdfast._sync.providers.base import Content
from holdfast._sync.providers.http import ServiceProvider
from holdfast._sync.runtime import compute, run_blocking
from holdfast._sync.session import Session
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.config.client_config import missing_token
from holdfast.config.secret import Secret
from holdfast.content.profiles import profile_for
from holdfast.content.reference import Reference
from holdfast.protocol.multipart import SMALL, FormFile, FormFolder
from holdfast.protocol.pin_api import PinAPI
from holdfast.protocol.pinning import PinningAPI
from holdfast.records import Added, Pin, PinInfo
from holdfast.sources.folder_source import FolderSource, check_form
from holdfast.sources.hashed_source import WrittenLayout, compare_json
from holdfast.sources.sources import Progress, Source


class PinProvider(ServiceProvider):
    """Pins by HTTP with a token, and reads through gateways that never see it.

    Example:
        >>> from holdfast import ClientConfig
        >>> config = ClientConfig(provider="pinning", provider_token="eyJhbGciOi")
        >>> PinProvider(config).url("bafkqaaa")
        'https://gateway.pinata.cloud/ipfs/bafkqaaa'
    """

    takes: tuple[type, ...] = (Source, FolderSource)
    _api: PinAPI

    def __init__(self, config: ClientConfig, *, session: Session | None = None) -> None:
        if config.provider_token is None:
            raise missing_token(config)
        super().__init__(config, session=session)
        self._api = self.make_api(config, config.provider_token)
        self._layout = WrittenLayout(profile_for(config.profile, config.cid_version))

    def make_api(self, config: ClientConfig, token: Secret) -> PinAPI:
        """Return the API object for `config`. A subclass may return another one."""
        return PinningAPI(config.api_url, token, config.cid_version)

    def add(self, content: Content, info: PinInfo, call: Call, progress: Progress, /) -> Added:
        """Pin JSON, a file or a folder.

        The CID is computed while the bytes are sent. If the service's CID is certainly that of
        other bytes, raise VerificationError; for JSON, which the service may rewrite, log a
        warning.
        """
        if isinstance(content, FolderSource):
            return self.add_folder(content, info, call, progress)
        if content.json is None:
            return self.add_file(content, info, call, progress)
        return self.add_json(content, content.json, info, call)

    def add_json(self, _source: Source, data: bytes, info: PinInfo, call: Call) -> Added:
        """Pin the JSON text `data`."""
        added = self.run(self._api.add_json(data, info), call)
        if self.config.verify:
            compute(len(data), compare_json, data, added.cid)
        return added

    def add_file(self, source: Source, info: PinInfo, call: Call, progress: Progress) -> Added:
        """Pin the bytes of `source` as a file."""
        hashed = self._layout.hashed(source, verify=self.config.verify)
        file = FormFile(info.name, source.type, hashed)
        size = source.size
        is_small = source.file is None and size is not None and size <= SMALL
        exchange = self._api.add_files(
            [file], info, lambda sent: progress(sent, size), whole=is_small
        )
        added = self.run(exchange, call)
        if is_small:
            progress(size or 0, size)
        if self.config.verify:
            call.cid = added.cid
            compare = partial(self._layout.compare, hashed, Reference.parse(added.cid).cid)
            (compute(size or 0, compare) if is_small else run_blocking(compare))
        return added

    def add_folder(
        self, folder: FolderSource, info: PinInfo, call: Call, progress: Progress
    ) -> Added:
        """Pin a folder, whose files are sent as one form.

        Raise UnsupportedError for what a form cannot carry: links, empty folders, some names.
        """
        check_form(folder, self.title)
        hashed = self._layout.hashed_folder(folder, verify=self.config.verify)
        files = FormFolder(info.name, hashed.files)
        exchange = self._api.add_files(files, info, lambda sent: progress(sent, folder.size))
        added = self.run(exchange, call)
        call.cid = added.cid
        if self.config.verify:
            cid = Reference.parse(added.cid).cid
            run_blocking(self._layout.compare_folder, hashed, cid)
        return added

    def pin(self, cid: str, info: PinInfo) -> Pin:
        """Ask the service to fetch and pin `cid`, unless it is pinned already."""
        with self.call("pin", cid) as call:
            return self.run(self._api.pin(cid, info), call)

    def check_pin(self, pin: Pin) -> Pin:
        """Return a pin by `pin` as it is now; raise ProviderError if the service has failed."""
        with self.call("pin", pin.cid) as call:
            return self.run(self._api.check_pin(pin), call)
