"""Adding content to a provider that has no more than the methods of the spec."""

from holdfast.files.sources import Progress, Source
from holdfast.provider import AsyncAnnotating, AsyncStorageProvider, ask, has_capability
from holdfast.records import Added, PinInfo


class AsyncPlainAdding:
    """Adds by `put_json` and `put_file`, which take a name and return a CID."""

    def __init__(self, provider: AsyncStorageProvider) -> None:
        self._provider = provider

    @classmethod
    def of(cls, provider: AsyncStorageProvider) -> AsyncAnnotating:
        """Return `provider` itself if it takes key-values, else its methods of the spec.

        A subclass that overrides only the methods of the spec expects to be called by them.
        """
        plain = cls(provider)
        if not has_capability(provider, AsyncAnnotating) or _overrides_the_spec(type(provider)):
            return plain
        return provider

    async def pin_json(self, text: str, info: PinInfo) -> Added:
        """Store the JSON `text`."""
        if info.keyvalues:
            return await ask(self._provider, AsyncAnnotating).pin_json(text, info)
        return Added(cid=await self._provider.put_json(text, name=info.name))

    async def pin_file(
        self, source: Source, info: PinInfo, *, progress: Progress | None = None
    ) -> Added:
        """Store the bytes of `source`."""
        if info.keyvalues:
            return await ask(self._provider, AsyncAnnotating).pin_file(
                source, info, progress=progress
            )
        cid = await self._provider.put_file(source, name=info.name, progress=progress)
        return Added(cid=cid)


def _overrides_the_spec(kind: type) -> bool:
    """Return whether a class has new methods of the spec over older ones with key-values."""
    for each in kind.__mro__:
        if "pin_json" in vars(each) or "pin_file" in vars(each):
            return False
        if "put_json" in vars(each) or "put_file" in vars(each):
            return True
    return False
