"""Sends requests within the limits of a client: concurrency, rate, time and retries."""

import copy
import logging
import random
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, AsyncContextManager, Final, TypeAlias, TypeVar  # noqa: UP035
from urllib.parse import urlsplit

from holdfast._async.runtime import AsyncLock, AsyncSemaphore, now, sleep
from holdfast.calls import CALLS_AT_ONCE, Call, Clock, Deadline
from holdfast.config import ClientConfig
from holdfast.disk.closing import on_error
from holdfast.errors import NetworkError, RequestTimeoutError
from holdfast.forks import ForkAware
from holdfast.protocol.http import MAX_REPLY, Reply, Request
from holdfast.protocol.retrying import Backoff, RateLimiter, Retry, RetryBudget, retry_reason

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse, AsyncTransport

RESTART_CAP: Final = 2.0  # the longest wait in seconds while a service restarts
UNLIMITED: Final = 10**6  # attempts

T = TypeVar("T")
Attempt: TypeAlias = Reply | NetworkError
Once: TypeAlias = Callable[[Request, Call], Awaitable[Attempt]]


class _AsyncLocks(ForkAware):
    """The locks that all calls of a client share.

    Attributes:
        calls: Limits the number of calls at once.
        turn: Held by the request that waits for its turn under the rate limit.
        alone: A set of these locks only.
    """

    def __init__(self) -> None:
        self.alone = frozenset({self})
        self.after_fork_in_child()
        self.watch_forks()

    def after_fork_in_child(self) -> None:
        """Replace the locks, which threads of the parent may hold."""
        self.calls = AsyncSemaphore(CALLS_AT_ONCE)
        self.turn = AsyncLock()


# The locks of the clients that have a call under way here.
_calling: ContextVar[frozenset[_AsyncLocks]] = ContextVar("_calling", default=frozenset())


class _AsyncLimitedCall:
    """A call of a session, from the time when it is allowed: see `AsyncSession.call`."""

    __slots__ = ("_arguments", "_call", "_clock", "_locks", "_semaphore", "_token")

    def __init__(self, locks: _AsyncLocks, clock: Clock | None, *arguments: Any) -> None:
        self._locks = locks
        self._clock = clock
        self._arguments = arguments

    async def __aenter__(self) -> Call:
        calling = _calling.get()
        self._semaphore = None if self._locks in calling else self._locks.calls
        if self._semaphore is not None:
            arrived = now()
            await self._semaphore.acquire()
            if self._clock is not None:
                self._clock.postponed += now() - arrived
        self._token = _calling.set(calling | self._locks.alone if calling else self._locks.alone)
        operation, cid, total, hook, provider = self._arguments
        self._call = Call(
            operation, cid=cid, total=total, hook=hook, clock=self._clock, provider=provider
        )
        return self._call

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        if isinstance(error, RequestTimeoutError) and self._call.deadline.has_passed:
            error.add_note("the time for the whole call was over: see timeouts.total")
        try:
            self._call.__exit__(kind)
        finally:
            _calling.reset(self._token)
            if self._semaphore is not None:
                self._semaphore.release()


class AsyncSession:
    """Sends requests through a transport, within the limits that all calls of a client share.

    Attributes:
        transport: The transport.
        config: The configuration, with the time-outs and retries.
        provider: The name of the provider, for events.
        avoided: The addresses of gateways and peers that have failed, each with the time until
            which it is asked last: see `PeerSet`.
        trustless: The gateways that give only blocks and archives, each with the time until which
            that is assumed.
    """

    def __init__(self, transport: "AsyncTransport", config: ClientConfig) -> None:
        self.transport = transport
        self.config: ClientConfig = config
        self.provider: str | None = None
        self.avoided: dict[str, float] = {}
        self.trustless: dict[str, float] = {}
        self._locks = _AsyncLocks()
        self._budget = RetryBudget(config.retries.budget)
        self._limiter = _limiter_for(config)

    def with_config(self, config: ClientConfig) -> "AsyncSession":
        """Return a session for `config` that shares the connections and all equal limits."""
        shared = copy.copy(self)
        shared.config = config
        if config.retries.budget != self.config.retries.budget:
            shared._budget = RetryBudget(config.retries.budget)  # noqa: SLF001
        if config.rate_limit != self.config.rate_limit:
            shared._limiter = _limiter_for(config)  # noqa: SLF001
        return shared

    def call(
        self,
        operation: str,
        cid: str | None = None,
        *,
        total: bool = True,
        clock: Clock | None = None,
    ) -> "AsyncContextManager[Call]":
        """Wait until another call is allowed, and start it. It has a deadline if `total` is True.

        With a `clock`, it shares the time of other calls. The wait does not count against the
        deadline. A call within a call of the same client (an
        upload from a file that this client reads, for example) does not wait: it might wait for
        itself.
        """
        config = self.config
        seconds = config.timeouts.total if total else None
        return _AsyncLimitedCall(
            self._locks, clock, operation, cid, seconds, config.on_event, self.provider
        )

    async def fetch(self, request: Request, call: Call, once: Once | None = None) -> Reply:
        """Send `request`, retry if that may help, and return the complete reply.

        `once` makes one attempt; by default, that is `fetch_once`.
        """
        if once is not None:
            return await self._fetch(request, call, once)
        outcome = await self.fetch_once(request, call)
        if isinstance(outcome, Reply) and outcome.status not in request.retried:
            self.succeeded()
            return outcome
        return await self._fetch(request, call, self.fetch_once, outcome)

    async def _fetch(self, request: Request, call: Call, once: Once, *outcomes: Attempt) -> Reply:
        """Make attempts until one succeeds or nothing helps. The first has perhaps its outcome."""
        earlier = [*outcomes]
        is_lost = False  # whether an attempt sent all of the request and got no reply

        async def attempt() -> Attempt:
            return earlier.pop() if earlier else await once(request, call)

        def reason(outcome: Attempt) -> Retry | None:
            nonlocal is_lost
            is_lost = is_lost or (isinstance(outcome, NetworkError) and outcome.sent)
            return retry_reason(outcome, request.retried) if request.repeatable else None

        try:
            reply = await self.retry(attempt, call, reason)
        except NetworkError as error:
            if call.attempt > 1:
                error.add_note(f"after {call.attempt} attempts")
            raise
        if reply.status not in request.retried:
            self.succeeded()
        return replace(reply, reply_lost=True) if is_lost else reply

    async def retry(
        self,
        attempt: Callable[[], Awaitable[T | NetworkError]],
        call: Call,
        reason: Callable[[T | NetworkError], Retry | None] = retry_reason,
        backoff: Backoff | None = None,
    ) -> T:
        """Make an attempt, and others while there is a reason and retries are left.

        Return the last result, or raise the last NetworkError.

        Args:
            attempt: Makes one attempt; it raises or returns its NetworkError.
            call: The call that the attempts belong to.
            reason: Returns why there must be another attempt after an outcome, or None.
            backoff: The waits between the attempts, if they are not the usual ones.
        """
        while True:
            try:
                outcome = await attempt()
            except NetworkError as error:
                outcome = error
            # Outside of the handler: this error must not become the context of the next one.
            if (why := reason(outcome)) is not None:
                backoff = backoff or self.backoff()
                if await self.wait(backoff, call, why):
                    continue
            if isinstance(outcome, NetworkError):
                raise outcome
            return outcome

    async def wait(self, backoff: Backoff, call: Call, why: Retry) -> bool:
        """Wait before the next attempt; return False at once if there must be none.

        A wait that the peer asks for postpones the deadline of the call.
        """
        delay = backoff.next_delay(why.asked, call.deadline.left(), call.clock.asked_wait)
        if delay is None:
            return False
        peer = urlsplit(call.url).netloc.rpartition("@")[2]
        call.tell(
            "retry",
            "%s failed at %s with %s on attempt %d; the next one is in %.2f s",
            call.operation,
            peer,
            f"HTTP error {why.status}" if why.status else why.error,
            backoff.failures,
            delay,
            level=logging.INFO,
            peer=peer,
            delay=delay,
            error=why.error,
            status=why.status,
            elapsed=now() - call.started,
        )
        begun = now()
        await sleep(delay)
        if why.asked is not None:
            call.clock.asked_wait += delay
            call.clock.postponed += now() - begun
        return True

    def backoff(self) -> Backoff:
        """Return the waits between the attempts of one call."""
        return Backoff(self.config.retries, self._budget, random.uniform)

    def restart_backoff(self) -> Backoff:
        """Return the waits between the attempts while a service restarts: the caller ends them.

        They do not count against the budget that all calls share.
        """
        cap = min(self.config.retries.cap, RESTART_CAP)
        retries = replace(self.config.retries, attempts=UNLIMITED, cap=cap)
        return Backoff(retries, RetryBudget(UNLIMITED), random.uniform)

    def succeeded(self) -> None:
        """Count a request that succeeded: it gives one retry back."""
        self._budget.give_back()

    async def fetch_once(
        self, request: Request, call: Call, *, deadline: Deadline | None = None
    ) -> Attempt:
        """Send `request` once and return the reply or the error.

        An error that is raised would become the context of the next one. When the body of a reply
        with a failed status cannot be read, return the reply without it.
        """
        try:
            response = await self.send(request, call, deadline=deadline)
        except NetworkError as error:
            return error
        try:
            return await read_whole(response, request.max_reply)
        except NetworkError as error:
            has_failed = response.status >= 300
            return Reply(response.status, response.headers) if has_failed else error
        finally:
            await response.aclose()

    async def send(
        self, request: Request, call: Call, *, deadline: Deadline | None = None
    ) -> "AsyncResponse":
        """Send `request` and return the reply, whose body is not read yet. The caller closes it.

        `deadline` replaces that of the call.
        """
        if self._limiter is not None:
            await self._wait_for_turn(self._limiter, call)
        call.attempt += 1
        call.url = request.url
        deadline = deadline or call.deadline
        if call.is_heard():
            return await self._send_and_tell(request, call, deadline)
        return await self.transport.send(request, timeouts=self.config.timeouts, deadline=deadline)

    async def _send_and_tell(
        self, request: Request, call: Call, deadline: Deadline
    ) -> "AsyncResponse":
        """Send `request` and report how it ended."""
        facts: dict[str, Any] = {"attempt": call.attempt, "peer": request.peer}
        started = now()
        try:
            timeouts = self.config.timeouts
            response = await self.transport.send(request, timeouts=timeouts, deadline=deadline)
            facts["status"] = response.status
            return response
        except BaseException as failure:
            facts["error"] = type(failure).__name__
            raise
        finally:
            outcome = facts.get("status") or facts.get("error")
            facts["elapsed"] = now() - started
            call.tell("request", "%s %s: %s", request.method, request.peer, outcome, **facts)

    async def _wait_for_turn(self, limiter: RateLimiter, call: Call) -> None:
        """Wait until the rate limit allows the next request.

        Requests wait in a queue. One that is cancelled does not use up a turn.
        """
        arrived = now()
        async with self._locks.turn:
            delay = limiter.reserve(now())
            with on_error(limiter.give_back):
                await sleep(delay)
        call.clock.postponed += now() - arrived


def _limiter_for(config: ClientConfig) -> RateLimiter | None:
    return None if config.rate_limit is None else RateLimiter(config.rate_limit)


async def read_whole(response: "AsyncResponse", limit: int = MAX_REPLY) -> Reply:
    """Read at most `limit` bytes of the body and return the reply.

    Credentials that the peer repeats are masked.
    """
    body = await response.read_masked(limit)
    return Reply(response.status, response.headers, body, stream_error=response.stream_error)


def open_session(config: ClientConfig) -> AsyncSession:
    """Return a session with connections of its own."""
    # Imported here, so that providers can be imported where their HTTP library is not installed.
    from holdfast._async.transport import AsyncTransport  # noqa: PLC0415

    return AsyncSession(AsyncTransport(config), config)
