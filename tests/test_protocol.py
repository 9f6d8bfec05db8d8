"""What goes over the wire, without a wire: forms, errors, retries, peers, private hosts."""

import io
import json
import random
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.utils import format_datetime

import pytest

from holdfast import ClientConfig, Retries, errors
from holdfast.config.secret import Secret
from holdfast.protocol.host_privacy import MACHINE, METADATA, PRIVATE, WORLD, privacy
from holdfast.protocol.http import Reply
from holdfast.protocol.multipart import FileForm, FormFile
from holdfast.protocol.peer_set import PeerSet
from holdfast.protocol.retrying import (
    Backoff,
    Retry,
    RetryBudget,
    is_unconnected,
    retry_reason,
)
from holdfast.protocol.status_errors import (
    PINNING_ERRORS,
    provider_error,
    retry_after,
)
from holdfast.sources.sources import Source, open_source

FILES = {"a.txt": b"hello", "sub/b.bin": b"", 'sub/"c".bin': b"x" * 3_000_000}


def form_of(files):
    parts = [FormFile(name, "text/plain", open_source(data)) for name, data in files.items()]
    return FileForm(parts, fields={"options": "{}", "name": "ünï"})


def test_a_form_carries_several_files():
    form = form_of(FILES)
    body = b"".join(form.chunks())
    assert (len(body), form.repeatable) == (form.length, True)
    message = message_from_bytes(f"Content-Type: {form.content_type}\r\n\r\n".encode() + body)
    parts = [
        (part.get_param("name", header="content-disposition"), part.get_payload(decode=True))
        for part in message.get_payload()
    ]
    assert parts == [
        ("options", b"{}"),
        ("name", "ünï".encode()),
        *(("file", data) for data in FILES.values()),
    ]
    names = [part.get_filename() for part in message.get_payload()]
    assert names == [None, None, "a.txt", "sub/b.bin", "sub/%22c%22.bin"]
    assert b"".join(form.chunks()).count(b"hello") == 1  # sent again, it is the same form


def test_progress_counts_the_bytes_of_all_files_and_of_nothing_else():
    form, counts, sent = form_of(FILES), [], 0
    on_sent = form.on_sent(counts.append)
    for chunk in form.chunks():
        sent += len(chunk)
        on_sent(sent)
    assert (counts[0], counts[-1]) == (5, 3_000_005)  # small pieces are sent together
    assert counts == sorted(set(counts))


def test_a_form_with_a_file_of_unknown_size_has_no_length():
    files = [
        FormFile("a", "", open_source(b"1")),
        FormFile("b", "", Source(io.BytesIO(b"23"), size=None)),
    ]
    form = FileForm(files, fields={})
    assert form.length is None
    assert b"23" in b"".join(form.chunks())
    assert not form.repeatable


# Each status and error body

TEXT = {"content-type": "text/plain; charset=utf-8"}
HTML = {"content-type": "text/html"}
JSON = {"content-type": "application/json"}
CODE = "CURRENT_USER_HAS_NOT_PINNED_CID"


def reply_of(status, headers, body):
    return Reply(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        (JSON, {"error": {"reason": "R", "details": "D"}}, "D"),
        (JSON, {"error": {"reason": "R", "message": "M"}}, "M"),
        (JSON, {"error": {"reason": "R"}}, "R"),
        (JSON, {"error": {"reason": "R", "details": {"a": 1}}}, "R"),
        (JSON, {"error": "Invalid request format."}, "Invalid request format."),
        (JSON, {"error": "E", "message": "M"}, "E"),
        (JSON, {"error": {}, "message": "M"}, "M"),
        (JSON, {"message": "M"}, "M"),
        (JSON, {"message": 5}, "HTTP error 422"),
        (JSON, [], "HTTP error 422"),
        (JSON, b'{"error": "bro', "HTTP error 422"),
        (TEXT, b"Something is wrong", "Something is wrong"),
        (TEXT, b"Something\r\n is\twrong\n", "Something is wrong"),
        (TEXT, b"x" * 600, "x" * 500),
        (TEXT, b"<!DOCTYPE html><html></html>", "HTTP error 422"),
        (TEXT, b'{"error": "in JSON"}', "in JSON"),
        (HTML, b"<html><body>502 Bad Gateway</body></html>", "HTTP error 422"),
        (HTML, b'{"error": {"details": "D"}}', "D"),
        ({}, b"Something is wrong", "HTTP error 422"),
        (
            JSON,
            {"error": "a  b\u00a0c\u3000\u200d\U0001f469 é"},
            "a  b\u00a0c\u3000\u200d\U0001f469 é",
        ),
    ],
)
def test_every_known_error_body_is_read(headers, body, message):
    error = provider_error(reply_of(422, headers, body))
    assert (type(error), str(error), error.status) == (errors.ProviderError, message, 422)
    silent = provider_error(reply_of(401, headers, body))
    assert str(silent) == "HTTP error 401"
    assert silent.details == (None if message == "HTTP error 422" else message)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, errors.ProviderError) for status in (301, 400, 410, 500, 503)),
        (401, errors.AuthenticationError),
        (403, errors.PermissionDeniedError),
        (404, errors.NotFoundError),
        (429, errors.RateLimitError),
    ],
)
def test_a_failed_status_without_words_is_http_error_and_the_status(status, kind):
    headers = {**HTML, "x-request-id": "req-17", "retry-after": "60"}
    error = provider_error(reply_of(status, headers, b"<html></html>"))
    assert (type(error), str(error), error.status) == (kind, f"HTTP error {status}", status)
    assert (error.details, error.request_id, error.retry_after) == (None, "req-17", 60)


def test_a_token_that_the_provider_echoes_is_masked():
    reply = reply_of(400, {"cf-ray": "1-a-token"}, {"error": "bad a-token here"})
    error = provider_error(reply, secret=Secret("a-token"))
    assert (str(error), error.request_id) == ("bad ******** here", "1-********")


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind", "message"),
    [
        (400, JSON, {"error": {"reason": CODE, "details": "no"}}, errors.NotFoundError, "no"),
        (
            400,
            JSON,
            {"error": "has not pinned hash: Q"},
            errors.NotFoundError,
            "has not pinned hash: Q",
        ),
        (400, TEXT, b"it is not pinned", errors.NotFoundError, "it is not pinned"),
        (404, JSON, {"error": "it is not pinned"}, errors.NotFoundError, "it is not pinned"),
        (400, JSON, {"error": "bad CID"}, errors.ProviderError, "bad CID"),
        (400, HTML, b"<p>not pinned</p>", errors.ProviderError, "HTTP error 400"),
        (422, JSON, {"error": "it is not pinned"}, errors.ProviderError, "it is not pinned"),
    ],
)
def test_not_pinned_is_a_not_found_error_whatever_its_status(status, headers, body, kind, message):
    error = provider_error(reply_of(status, headers, body), table=PINNING_ERRORS)
    assert (type(error), str(error), error.status) == (kind, message, status)


# The order of peers


def test_a_peer_that_failed_is_asked_last_for_five_minutes():
    avoided = {}
    peers = PeerSet(["a", "b", "c"], avoided)
    peers.avoid("a", now=1000.0)
    assert peers.in_order(now=1299.9) == ["b", "c", "a"]
    assert PeerSet(["c", "a"], avoided).in_order(now=1299.9) == ["c", "a"]
    peers.avoid("b", now=1010.0)
    assert peers.in_order(now=1020.0) == ["c", "a", "b"]
    assert peers.in_order(now=1300.0) == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("error", "is_avoided"),
    [
        (errors.NetworkError("reset"), True),
        (errors.ProviderError("busy", status=503), True),
        (errors.VerificationError("wrong bytes"), True),
        (errors.ProviderError("gone", status=410), False),
        (errors.NotFoundError("missing", status=404), False),
        (errors.UnprovenError("no blocks"), False),
        (errors.MalformedError("malformed"), False),
    ],
)
def test_only_a_peer_that_does_not_work_is_avoided(error, is_avoided):
    peers = PeerSet(["a", "b"], {})
    peers.note_failure("a", error, now=0.0)
    assert peers.in_order(now=1.0) == (["b", "a"] if is_avoided else ["a", "b"])


# How private a host is

# Among these: NAT64, by which a network of IPv6 alone reaches the world, and its private prefix;
# fullwidth letters and digits, other dots; numbers that some programs read as addresses.
LEVELS = {
    WORLD: """
        ipfs.io ipfs.io. b\xfccher.example 8.8.8.8 2606:4700::1111 ::ffff:8.8.8.8
        64:ff9b::8.8.8.8
    """,
    PRIVATE: """
        10.0.0.1 172.16.0.1 192.168.1.1 100.64.0.1 198.18.0.1 224.0.0.1 240.0.0.1
        255.255.255.255 fc00::1 fd00::1 fec0::1 ff02::1 2001:db8::1 ::ffff:10.0.0.1 ::10.0.0.1
        ::ffff:0:10.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::808:808 2002:a00:1::1 2002:808:808::1
        intranet printer.local router.home.arpa db.internal
    """,
    MACHINE: """
        localhost LOCALHOST. sub.localhost loc%61lhost \uff4cocalhost
        \uff11\uff12\uff17.\uff10.\uff10.\uff11 127\u30020\u30020\u30021 127.0.0.1 127.255.0.1
        0.0.0.0 0.1.2.3 ::1 :: ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::127.0.0.1 2002:7f00:1::1
        2606:4700::5efe:127.0.0.1
    """,
    METADATA: """
        169.254.169.254 192.0.0.192 100.100.100.200 168.63.129.16 fe80::1 fe80::1%eth0
        fd00:ec2::254 ::ffff:169.254.169.254 ::ffff:a9fe:a9fe ::ffff:192.0.0.192
        ::169.254.169.254 ::ffff:0:169.254.169.254 64:ff9b::169.254.169.254
        64:ff9b:1::169.254.169.254 64:ff9b:1:a9fe:a9:fe00:: 2002:a9fe:a9fe:: 2001:0:a9fe:a9fe::1
        2001:0:808:808::5601:5601 2852039166 0xa9fea9fe 169.254.43518 127.1 0
    """,
}


@pytest.mark.parametrize(
    ("host", "level"), [(host, level) for level in LEVELS for host in LEVELS[level].split()]
)
def test_every_form_of_an_address_has_its_privacy(host, level):
    assert privacy(host) == level


# When a request is sent again, and after what wait

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
    assert retry_reason(errors.NetworkError("reset")) == Retry("NetworkError")
    assert retry_reason(errors.NetworkError("certificate", transient=False)) is None
    assert retry_reason(ValueError("another")) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.NetworkError("refused"), True),
        (errors.NetworkError("reset", sent=True), False),
        (errors.NetworkError("certificate", transient=False), False),
        (errors.RequestTimeoutError("slow"), False),
        (errors.ProviderError("busy", status=503), False),
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
        pytest.param(in_seconds(36_000), 30_000, 36_000, id="a date"),
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
    with pytest.raises(errors.ConfigError, match=r"retries\.max_retry_after must be a number"):
        Retries(max_retry_after=value)
