"""Refusals: a gateway does not serve what a strategy needs. Which error the user gets."""

from holdfast._async.runtime import now
from holdfast.content.reference import Reference
from holdfast.content.unixfs.archive import CutOffError
from holdfast.errors import NotFoundError, ProviderError, UnprovenError
from holdfast.protocol.gateway import FORMAT_REFUSALS, TRUSTLESS_FOR, Gateway
from holdfast.protocol.http import Reply


class RefusedError(UnprovenError):
    """A gateway does not serve what one strategy needs; another strategy may work.

    Attributes:
        reason: The gateway's own error, if it sent one.
    """

    def __init__(
        self, message: str, *, cid: str | None = None, reason: ProviderError | None = None
    ) -> None:
        super().__init__(message, cid=cid)
        self.reason = reason


class Refusals:
    """What one gateway has refused during one attempt.

    Attributes:
        plain: Its error for a request for plain content, if it refused that.
    """

    def __init__(self, gateway: Gateway, reference: Reference, trustless: dict[str, float]) -> None:
        self._gateway = gateway
        self._reference = reference
        self._trustless = trustless
        self._worst: UnprovenError | None = None
        self.plain: ProviderError | None = None

    @property
    def is_trustless(self) -> bool:
        """Whether the gateway is known to serve blocks and archives only."""
        return self.plain is not None or self._trustless.get(self._gateway.base_url, 0.0) > now()

    def confirm_trustless(self) -> None:
        """Remember for a while that the gateway serves blocks or archives and no plain content."""
        if self.plain is not None:
            self._trustless[self._gateway.base_url] = now() + TRUSTLESS_FOR

    def error(self, reason: ProviderError | None = None) -> RefusedError:
        """Return the error for a gateway that does not serve what a strategy needs."""
        reference = str(self._reference)
        return RefusedError(
            f"{reference} cannot be verified: {self._gateway.base_url} gives neither its blocks "
            "nor an archive of them; add a gateway that does, or set verify=False to trust it",
            cid=reference,
            reason=reason,
        )

    def check_type(self, reply: Reply, wanted: str) -> None:
        """Raise RefusedError unless `reply` has the wanted media type."""
        if reply.media_type != wanted:
            raise self.error() from None

    def add(self, error: UnprovenError) -> None:
        """Note why a strategy did not work."""
        latest = error
        if isinstance(error, CutOffError) and self.is_trustless:
            words = f"{self._gateway.peer} does not have all of {self._reference}"
            latest = self.error(NotFoundError(words))
        if self._worst is None or self._tells_less(self._worst, latest):
            self._worst = latest

    def raise_worst(self) -> None:
        """Raise the most useful error for the user, if any strategy has failed."""
        if self._worst is not None:
            raise self.as_told(self._worst)

    def _tells_less(self, first: UnprovenError, later: UnprovenError) -> bool:
        """Return whether the `first` error is less useful to the user than the `later` one."""
        if not isinstance(first, RefusedError) or not isinstance(later, RefusedError):
            return isinstance(first, RefusedError)
        # For a gateway without plain content, "not found" is more useful than "not in this format".
        reason = first.reason
        return not self.is_trustless or reason is None or reason.status in FORMAT_REFUSALS

    def as_told(self, error: UnprovenError) -> UnprovenError | ProviderError:
        """Return the error to raise for `error`.

        A gateway without plain content has refused every request. Then raise its own error,
        preferably the one for blocks or archives.
        """
        if not isinstance(error, RefusedError):
            return error
        reason = error.reason
        if self.is_trustless and reason is not None:
            if reason.status not in FORMAT_REFUSALS:
                return reason
            if self.plain is not None:
                return self.plain
        told = UnprovenError(error.message, cid=error.cid)
        if reason is not None:
            told.add_note(f"{self._gateway.base_url}: {reason.name}: {reason.message}")
        return told
