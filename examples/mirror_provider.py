"""Keep everything at two providers, and go on when either fails."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import fields
from typing import Any, Self, TypeVar

import holdfast.provider as hp
from holdfast import ClientConfig
from holdfast.errors import ClientError, VerificationError

T = TypeVar("T")


def changed_fields(before: ClientConfig, after: ClientConfig) -> dict[str, Any]:
    values = {each.name: getattr(after, each.name) for each in fields(after)}
    return {name: value for name, value in values.items() if value != getattr(before, name)}


class Mirror(hp.BaseProvider):
    takes = (hp.Source, hp.FolderSource, hp.ArchiveSource)

    def __init__(self, *members: hp.BaseProvider) -> None:
        self._members = members
        super().__init__(members[0].config, reader=hp.BlockReader(self._block, verified=True))

    def supports(self, operation: str) -> bool:
        return super().supports(operation) and all(
            member.supports(operation) for member in self._members
        )

    def add(
        self, content: hp.Content, info: hp.PinInfo, _: hp.Call, progress: hp.Progress
    ) -> hp.Added:
        if isinstance(content, hp.Source) and not content.rewindable:
            with hp.spool(content) as spooled:
                if isinstance(content, hp.ArchiveSource):
                    return self._add(hp.ArchiveSource(spooled, content.root), info, progress)
                return self._add(spooled, info, progress)
        return self._add(content, info, progress)

    def _add(self, content: hp.Content, info: hp.PinInfo, progress: hp.Progress) -> hp.Added:
        most = 0

        def tell(done: int, total: int | None) -> None:
            nonlocal most
            most = max(most, done)  # the second member begins again
            progress(most, total)

        added = self._all(lambda member: member.put(content, info, tell))
        if len({hp.CID.parse(each.cid) for each in added}) > 1:
            raise VerificationError("the two providers gave the content different CIDs")
        return added[0]

    def _all(self, do: Callable[[hp.BaseProvider], T]) -> list[T]:
        """Do it at both; return the results, or raise the first error if both have failed."""
        results: list[T] = []
        failures: list[ClientError | OSError] = []
        for member in self._members:
            try:
                results.append(do(member))
            except (ClientError, OSError) as error:
                failures.append(error)
        if not results:
            raise failures[0]
        return results

    def _first(self, do: Callable[[hp.BaseProvider], T]) -> T:
        """Do it at the first that can; raise its error if none can."""
        failures: list[ClientError | OSError] = []
        for member in self._members:
            try:
                return do(member)
            except (ClientError, OSError) as error:
                failures.append(error)
        raise failures[0]

    def _block(self, cid: hp.CID) -> bytes:
        reference = hp.Reference(str(cid), cid)

        def read(member: hp.BaseProvider) -> bytes:
            with member.call("block", str(cid)) as call:
                return member.reader.blocks(reference, call).block(cid)

        return self._first(read)

    def unpin(self, cid: str, _: hp.Call) -> None:
        self._all(lambda member: member.delete(cid))

    def check_credentials(self, _: hp.Call) -> None:
        self._all(lambda member: member.test_authentication())

    def find_pins(self, pin_filter: hp.PinFilter, *, limit: int | None = None) -> Iterator[hp.Pin]:
        yield from self._first(lambda member: [*member.find_pins(pin_filter, limit=limit)])

    def update_pin(self, cid: str, **changes: Any) -> hp.Pin:
        return self._all(lambda member: member.update_pin(cid, **changes))[0]

    def pin(self, cid: str, info: hp.PinInfo) -> hp.Pin:
        return self._all(lambda member: member.pin(cid, info))[0]

    def check_pin(self, pin: hp.Pin) -> hp.Pin:
        return self._first(lambda member: member.check_pin(pin))

    def copy_with(self, config: ClientConfig) -> Self:
        changes = changed_fields(self.config, config)
        copies = (each.with_config(each.config.with_options(**changes)) for each in self._members)
        return type(self)(*copies)

    def release(self) -> None:
        self._all(lambda member: member.close())


class AsyncMirror(hp.AsyncBaseProvider):
    takes = (hp.Source, hp.FolderSource, hp.ArchiveSource)

    def __init__(self, *members: hp.AsyncBaseProvider) -> None:
        self._members = members
        super().__init__(members[0].config, reader=hp.AsyncBlockReader(self._block, verified=True))

    def supports(self, operation: str) -> bool:
        return super().supports(operation) and all(
            member.supports(operation) for member in self._members
        )

    async def add(
        self, content: hp.Content, info: hp.PinInfo, _: hp.Call, progress: hp.Progress
    ) -> hp.Added:
        if isinstance(content, hp.Source) and not content.rewindable:
            with await asyncio.to_thread(hp.spool, content) as spooled:
                if isinstance(content, hp.ArchiveSource):
                    return await self._add(hp.ArchiveSource(spooled, content.root), info, progress)
                return await self._add(spooled, info, progress)
        return await self._add(content, info, progress)

    async def _add(self, content: hp.Content, info: hp.PinInfo, progress: hp.Progress) -> hp.Added:
        most = 0

        def tell(done: int, total: int | None) -> None:
            nonlocal most
            most = max(most, done)  # the second member begins again
            progress(most, total)

        added = await self._all(lambda member: member.put(content, info, tell))
        if len({hp.CID.parse(each.cid) for each in added}) > 1:
            raise VerificationError("the two providers gave the content different CIDs")
        return added[0]

    async def _all(self, do: Callable[[hp.AsyncBaseProvider], Awaitable[T]]) -> list[T]:
        """Do it at both; return the results, or raise the first error if both have failed."""
        results: list[T] = []
        failures: list[ClientError | OSError] = []
        for member in self._members:
            try:
                results.append(await do(member))
            except (ClientError, OSError) as error:
                failures.append(error)
        if not results:
            raise failures[0]
        return results

    async def _first(self, do: Callable[[hp.AsyncBaseProvider], Awaitable[T]]) -> T:
        """Do it at the first that can; raise its error if none can."""
        failures: list[ClientError | OSError] = []
        for member in self._members:
            try:
                return await do(member)
            except (ClientError, OSError) as error:
                failures.append(error)
        raise failures[0]

    async def _block(self, cid: hp.CID) -> bytes:
        reference = hp.Reference(str(cid), cid)

        async def read(member: hp.AsyncBaseProvider) -> bytes:
            async with member.call("block", str(cid)) as call:
                return await member.reader.blocks(reference, call).block(cid)

        return await self._first(read)

    async def unpin(self, cid: str, _: hp.Call) -> None:
        await self._all(lambda member: member.delete(cid))

    async def check_credentials(self, _: hp.Call) -> None:
        await self._all(lambda member: member.test_authentication())

    async def find_pins(
        self, pin_filter: hp.PinFilter, *, limit: int | None = None
    ) -> AsyncIterator[hp.Pin]:
        async def find(member: hp.AsyncBaseProvider) -> list[hp.Pin]:
            return [pin async for pin in member.find_pins(pin_filter, limit=limit)]

        for pin in await self._first(find):
            yield pin

    async def update_pin(self, cid: str, **changes: Any) -> hp.Pin:
        return (await self._all(lambda member: member.update_pin(cid, **changes)))[0]

    async def pin(self, cid: str, info: hp.PinInfo) -> hp.Pin:
        return (await self._all(lambda member: member.pin(cid, info)))[0]

    async def check_pin(self, pin: hp.Pin) -> hp.Pin:
        return await self._first(lambda member: member.check_pin(pin))

    def copy_with(self, config: ClientConfig) -> Self:
        changes = changed_fields(self.config, config)
        copies = (each.with_config(each.config.with_options(**changes)) for each in self._members)
        return type(self)(*copies)

    async def release(self) -> None:
        await self._all(lambda member: member.aclose())
