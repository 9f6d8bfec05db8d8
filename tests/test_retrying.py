"""When a request is sent again and after what wait: the tables, without a server."""

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from holdfast import ClientConfig, Retries
from holdfast.errors import ConfigError, NetworkError, ProviderError, RequestTimeoutError
from holdfast.protocol.http import Reply
from holdfast.protocol.retrying import (
    Backoff,
    Retry,
    RetryBudget,
    is_unconnected,
    retry_reason,
)
from holdfast.protocol.status_errors import provider_error, retry_after

FINAL = [400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 422, 451, 520]
PASSING = [408, 425, 429, 500, 502, 503, 504]


def in_seconds(seconds):
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize("status", [*FINAL, *PASSING])
def test_only_a_status_that_may_pass_is_retried(status):
    is_retried = status in PASSING
    reply = Reply(status, {"retry-after": "5"})
    error = provider_error(reply)
    assert retry_reason(reply) == (Retry(status=status, asked=5.0) if is_retried else None)
    assert retry_reason(error) == (Retry(error.name, status, 5.0) if is_retried else None)
    assert retry_reason(reply, {520}) == (Retry(None, 520, 5.0) if status == 520 else None)


def test_an_error_of_the_connection_is_retried_if_it_may_pass():
    assert retry_reason(NetworkError("reset")) == Retry("NetworkError")
    assert retry_reason(NetworkError("certificate", transient=False)) is None
    assert retry_reason(ValueError("another")) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NetworkError("refused"), True),
        (NetworkError("reset", sent=True), False),
        (NetworkError("certificate", transient=False), False),
        (RequestTimeoutError("slow"), False),
        (ProviderError("busy", status=503), False),
    ],
)
def test_a_service_that_restarts_accepts_no_connection(error, expected):
    assert is_unconnected(error) is expected


@pytest.mark.parametrize(
    ("value", "lowest", "highest"),
    [
        ("0", 0, 0),
        ("1", 1, 1),
        (" 60 ", 60, 60),
        ("0" * 400, 0, 0),
        ("9" * 400, 1e9, 1e9),
        ("1000000000", 1e9, 1e9),
        pytest.param(in_seconds(3600), 3000, 3600, id="a date"),
        pytest.param(in_seconds(-3600), 0, 0, id="a date that is past"),
        ("Mon, 01 Jan 2024 00:00:00", 0, 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 1e9, 1e9),
    ],
)
def test_a_wait_is_a_number_or_a_date(value, lowest, highest):
    assert lowest <= retry_after(Reply(429, {"retry-after": value})) <= highest


@pytest.mark.parametrize(
    "value",
    [
        *("", "-1", "-5", "0.2", "1.5", "abc", "1e9", "1, 1", "1, abc", "\u0661"),
        "Sun, 06 Nov 99999999 08:49:37 GMT",
        "Mon, 01 Jan 2024 00:00:00 +99999999999999",
    ],
)
def test_a_wish_that_makes_no_sense_is_none(value):
    assert retry_after(Reply(429, {"retry-after": value})) is None


# The waits


def backoff_of(budget=10, uniform=random.uniform, **retries):
    return Backoff(Retries(**retries), RetryBudget(budget), uniform)


def test_waits_of_our_own_choice_are_random_and_grow_up_to_the_cap():
    most = backoff_of(attempts=6, base=0.01, cap=0.04, uniform=lambda _, high: high)
    assert [most.next_delay() for _ in range(6)] == [0.01, 0.02, 0.04, 0.04, 0.04, None]
    some = backoff_of(attempts=6, base=0.01, cap=0.04)
    delays = [some.next_delay() for _ in range(5)]
    assert len(set(delays)) == 5
    assert all(0 <= delay <= 0.04 for delay in delays)


def test_the_default_is_two_minutes_for_all_waits_of_a_call():
    assert Retries().max_retry_after == 120
    backoff = backoff_of()
    assert backoff.next_delay(60) == 60
    assert backoff.next_delay(60, waited=60) == 60
    assert backoff.next_delay(0, waited=120) == 0
    backoff.restart()
    assert backoff.next_delay(61, waited=60) is None
    assert backoff.next_delay(120.5) is None


def test_waits_of_our_own_choice_are_no_part_of_it():
    backoff = backoff_of(attempts=9, base=5, cap=5, max_retry_after=0)
    assert backoff.next_delay() is not None
    assert backoff.next_delay(waited=1000) is not None
    assert backoff.next_delay(left=0) is None
    assert backoff.next_delay(0, left=1) == 0
    assert backoff.next_delay(0, left=0) is None
    assert backoff.next_delay(1) is None


def test_a_success_gives_a_retry_of_the_budget_back():
    budget = RetryBudget(1)
    assert [budget.take(), budget.take()] == [True, False]
    budget.give_back()
    budget.give_back()
    assert [budget.take(), budget.take()] == [True, False]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "60", True])
def test_the_longest_wait_is_a_number_of_seconds(value, monkeypatch):
    monkeypatch.setenv("HOLDFAST_RETRIES", "max_retry_after=7.5")
    assert ClientConfig.from_env().retries == Retries(max_retry_after=7.5)
    with pytest.raises(ConfigError, match=r"retries\.max_retry_after must be a number"):
        Retries(max_retry_after=value)
