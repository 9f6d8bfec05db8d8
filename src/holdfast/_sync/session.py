# WARNING: this file is generated from src/holdfast/_async/session.py
# by scripts/generate_sync.py. Change the original instead.
"""Calls to peers: how many at once, how fast, how long, and how often again."""

import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast._sync.runtime import Slots, Turnstile, now, sleep
from holdfast.calls import Call, Deadline
from holdfast.config import ClientConfig, Timeouts
from holdfast.errors import NetworkError
from holdfast.forks import renew_after_fork
from holdfast.protocol.http import MAX_REPLY, Reply, Request
from holdfast.protocol.retrying import RETRIED, Backoff, RateLimiter, RetryBudget
from holdfast.protocol.status_errors import retry_after

if TYPE_CHECKING:
    from holdfast._sync.transport import Response, Transport

CALLS_AT_ONCE = 100  # further ones wait for their turn; each holds a connection or two

_inside: ContextVar[bool] = ContextVar("_inside", default=False)


class _Room:
    """What the calls of a client wait for: room among them, and a turn under the rate limit."""

    def __init__(self) -> None:
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Begin with locks that nobody holds."""
        self.slots = Slots(CALLS_AT_ONCE)
        self.turnstile = Turnstile()


class Session:
    """Sends requests through a transport, within the limits that all calls of a client share.

    Attributes:
        transport: What sends them.
        avoided: The gateways that have sent wrong bytes, and until when they come last.
        trustless: The gateways that give blocks and archives only, and until when that is assumed.
    """

    def __init__(self, transport: "Transport", config: ClientConfig) -> None:
        self.transport = transport
        self.avoided: dict[str, float] = {}
        self.trustless: dict[str, float] = {}
        self._config = config
        self._room = _Room()
        self._budget = RetryBudget(config.retries.budget)
        self._limiter = _limiter_for(config)

    @property
    def timeouts(self) -> Timeouts:
        """How long it waits for a peer."""
        return self._config.timeouts

    def with_config(self, config: ClientConfig) -> "Session":
        """A session for `config` that shares the connections, and the limits that are the same."""
        shared = copy.copy(self)
        shared._config = config  # noqa: SLF001 - our own
        if config.retries.budget != self._config.retries.budget:
            shared._budget = RetryBudget(config.retries.budget)  # noqa: SLF001
        if config.rate_limit != self._config.rate_limit:
            shared._limiter = _limiter_for(config)  # noqa: SLF001
        return shared

    @contextmanager
    def call(self, operation: str, cid: str | None = None, *, total: bool = True) -> Iterator[Call]:
        """An operation under way, once there is room for it; with a deadline, if it has a `total`.

        The time that it waited for room is not counted. A call within a call (an upload whose file
        is an open one of ours, say) has its room already: it must not wait for itself.
        """
        limit = self._config.timeouts.total if total else None
        with nullcontext() if _inside.get() else self._room.slots:
            mark = _inside.set(True)
            try:
                with Call(operation, cid=cid, total=limit, hook=self._config.on_event) as call:
                    yield call
            finally:
                _inside.reset(mark)

    def fetch(self, request: Request, call: Call) -> Reply:
        """The whole reply to `request`, sent again where that may help."""
        backoff = self.backoff()
        lost = False
        while True:
            outcome = self._fetch_once(request, call)
            if isinstance(outcome, Reply):
                if outcome.status not in RETRIED:
                    self.succeeded()
                    return replace(outcome, reply_lost=lost)
                may = request.repeatable
                facts: dict[str, Any] = {"status": outcome.status, "asked": retry_after(outcome)}
            else:
                may = request.repeatable and outcome.transient
                facts = {"error": outcome.name}
            if not (may and self.wait(backoff, call, **facts)):
                if isinstance(outcome, Reply):
                    return replace(outcome, reply_lost=lost)
                raise _with_count(outcome, call)
            lost = lost or (isinstance(outcome, NetworkError) and outcome.sent)

    def _fetch_once(self, request: Request, call: Call) -> Reply | NetworkError:
        """The reply, or what there was instead: returned, so that no failure is the next one's.

        A refusal whose words are lost is a refusal all the same.
        """
        try:
            response = self.send(request, call)
        except NetworkError as error:
            return error
        try:
            return read_whole(response, request.max_reply)
        except NetworkError as error:
            is_refusal = response.status >= 300
            return Reply(response.status, response.headers) if is_refusal else error
        finally:
            response.close()

    def send(self, request: Request, call: Call, *, deadline: Deadline | None = None) -> "Response":
        """The reply to `request`, its body still to come: the caller closes it.

        `deadline` may be nearer than the call's own.
        """
        self._wait_for_turn(call)
        call.attempt += 1
        about: dict[str, Any] = {"attempt": call.attempt, "peer": request.peer}
        started = now()
        try:
            response = self.transport.send(
                request, timeouts=self._config.timeouts, deadline=deadline or call.deadline
            )
            about["status"] = response.status
            return response
        except BaseException as failure:
            about["error"] = type(failure).__name__
            raise
        finally:
            outcome = about.get("status") or about.get("error")
            about["elapsed"] = now() - started
            call.tell("request", "%s %s: %s", request.method, request.peer, outcome, **about)

    def _wait_for_turn(self, call: Call) -> None:
        """Wait until the next request may be sent.

        Those that wait stand in line, one behind another: who leaves it takes nobody's time.
        """
        if self._limiter is None:
            return
        arrived = now()
        with self._room.turnstile:
            delay = self._limiter.reserve(now())
            try:
                sleep(delay)
            except BaseException:
                self._limiter.give_back()
                raise
        call.postponed += now() - arrived

    def backoff(self) -> Backoff:
        """The waits of one call."""
        return Backoff(self._config.retries, self._budget)

    def succeeded(self) -> None:
        """A peer gave what was asked for."""
        self._budget.give_back()

    def wait(
        self,
        backoff: Backoff,
        call: Call,
        *,
        asked: float | None = None,
        status: int | None = None,
        error: str | None = None,
    ) -> bool:
        """Wait before the next attempt; return False at once where there is to be none.

        `asked` is the wait that the peer asks for. It moves the deadline of the call on. `status`
        and `error` tell how the last attempt ended.
        """
        delay = backoff.next_delay(asked, call.deadline.left(), call.asked_wait)
        if delay is None:
            return False
        call.tell(
            "retry",
            "%s is tried again in %.2f s",
            call.operation,
            delay,
            level=logging.INFO,
            delay=delay,
            error=error,
            status=status,
            elapsed=now() - call.started,
        )
        begun = now()
        sleep(delay)
        if asked is not None:
            call.asked_wait += delay
            call.postponed += now() - begun
        return True


def _limiter_for(config: ClientConfig) -> RateLimiter | None:
    return None if config.rate_limit is None else RateLimiter(config.rate_limit)


def _with_count(error: NetworkError, call: Call) -> NetworkError:
    if call.attempt > 1:
        error.add_note(f"after {call.attempt} attempts")
    return error


def read_whole(response: "Response", limit: int = MAX_REPLY) -> Reply:
    """Return the reply with its body, of which at most `limit` bytes are kept.

    Credentials that the peer has echoed are masked.
    """
    return Reply(response.status, response.headers, response.read_masked(limit))


def read_content(response: "Response", limit: int) -> Reply:
    """Return the reply with its body as it came, of which at most `limit` bytes are kept."""
    return Reply(response.status, response.headers, response.read(limit))
