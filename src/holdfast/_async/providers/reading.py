"""What providers that only read have in common."""

from holdfast._async.providers.base import AsyncBaseProvider
from holdfast.calls import Call
from holdfast.errors import UnsupportedError
from holdfast.registry import writing_providers


class AsyncReadingProvider(AsyncBaseProvider):
    """A provider that cannot store or pin. A subclass defines `check_credentials`."""

    takes: tuple[type, ...] = ()

    async def unpin(self, _cid: str, _call: Call, /) -> None:
        """Raise UnsupportedError."""
        raise self.refusal("unpin")

    def refusal(self, operation: str) -> UnsupportedError:  # noqa: ARG002 - one error for all
        """Return the error for everything that the provider cannot do."""
        names = ", ".join(writing_providers())
        return UnsupportedError(f"{self.title} only reads; to store or pin, use one of {names}")
