"""What goes over the wire, without a wire: forms, tables of errors, the order of peers."""

import io
from email import message_from_bytes

import pytest

from holdfast.errors import (
    AuthenticationError,
    MalformedError,
    NetworkError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RequestTimeoutError,
    UnprovenError,
    VerificationError,
)
from holdfast.protocol.http import Reply
from holdfast.protocol.multipart import FileForm, FormFile
from holdfast.protocol.peer_set import PeerSet
from holdfast.protocol.status_errors import SPEC_ERRORS, ErrorTable, provider_error
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
    form, told, sent = form_of(FILES), [], 0
    on_sent = form.on_sent(told.append)
    for chunk in form.chunks():
        sent += len(chunk)
        on_sent(sent)
    assert told[0] == 5  # small pieces are sent together
    assert told[-1] == 3_000_005
    assert told == sorted(set(told))


def test_a_form_with_a_file_of_unknown_size_has_no_length():
    files = [
        FormFile("a", "", open_source(b"1")),
        FormFile("b", "", Source(io.BytesIO(b"23"), size=None)),
    ]
    form = FileForm(files, fields={})
    assert form.length is None
    assert b"23" in b"".join(form.chunks())
    assert not form.repeatable


# Kubo says what is wrong in `Message`, and refuses with 403 whom it does not know.
KUBO = ErrorTable(texts=(("Message",),), classes={403: AuthenticationError}, plain=frozenset())


@pytest.mark.parametrize(
    ("table", "status", "kind", "message"),
    [
        (SPEC_ERRORS, 403, PermissionDeniedError, "spec"),
        (SPEC_ERRORS, 401, AuthenticationError, "HTTP error 401"),
        (KUBO, 403, AuthenticationError, "kubo"),
        (KUBO, 401, ProviderError, "kubo"),
        (KUBO, 302, ProviderError, "HTTP error 302"),
    ],
)
def test_each_api_has_a_table_of_errors(table, status, kind, message):
    body = b'{"error": {"details": "spec"}, "Message": "kubo"}'
    error = provider_error(Reply(status, {"content-type": "application/json"}, body), table=table)
    assert (type(error), str(error), error.status) == (kind, message, status)


# The order of peers


def test_a_peer_that_failed_is_asked_last_for_five_minutes():
    avoided = {}
    peers = PeerSet(["a", "b", "c"], avoided, address=str)
    peers.avoid("a", now=1000.0)
    assert peers.in_order(now=1299.9) == ["b", "c", "a"]
    assert PeerSet(["c", "a"], avoided, address=str).in_order(now=1299.9) == ["c", "a"]
    assert peers.in_order(now=1300.0) == ["a", "b", "c"]


def test_of_the_peers_that_failed_the_last_comes_last():
    peers = PeerSet(["hung", "flaky"], {}, address=str)
    peers.avoid("hung", now=0.0)
    peers.avoid("flaky", now=10.0)
    assert peers.in_order(now=20.0) == ["hung", "flaky"]
    peers.avoid("hung", now=30.0)
    assert peers.in_order(now=40.0) == ["flaky", "hung"]


@pytest.mark.parametrize(
    ("error", "is_avoided"),
    [
        (NetworkError("reset"), True),
        (NetworkError("certificate", transient=False), True),
        (RequestTimeoutError("slow"), True),
        (ProviderError("busy", status=503), True),
        (VerificationError("wrong bytes"), True),
        (ProviderError("gone", status=410), False),
        (ProviderError("legal", status=451), False),
        (NotFoundError("missing", status=404), False),
        (UnprovenError("no blocks"), False),
        (MalformedError("malformed"), False),
    ],
)
def test_only_a_peer_that_does_not_work_is_avoided(error, is_avoided):
    peers = PeerSet(["a", "b"], {}, address=str)
    peers.note_failure("a", error, now=0.0)
    assert peers.in_order(now=1.0) == (["b", "a"] if is_avoided else ["a", "b"])
