"""What goes over the wire, without a wire: forms with several files, and tables of errors."""

import io
from email import message_from_bytes

import pytest

from holdfast.errors import AuthenticationError, PermissionDeniedError, ProviderError
from holdfast.files.sources import Source, open_source
from holdfast.protocol.http import Reply
from holdfast.protocol.multipart import FileForm, FormFile
from holdfast.protocol.status_errors import SPEC_ERRORS, ErrorTable, provider_error

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
