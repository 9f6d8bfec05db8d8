"""Looks for secrets in all that a user, a log, a hook or an error tracker could see of a call."""

import base64
import logging
import pickle
import traceback
from urllib.parse import quote

import holdfast
from holdfast.config.secret import Secret
from tests.support import GATEWAY_TOKEN, TOKEN

PACKAGE = str(holdfast.__path__[0])
PASSWORD = "proxy-pass-0123456789"
SECRETS = (TOKEN, GATEWAY_TOKEN, PASSWORD)


def escaped(token):
    pairs = enumerate(token)
    return "".join(f"\\u{ord(char):04x}" if place % 2 else char for place, char in pairs)


# How a peer may write a credential that it sends back.
FORMS = {
    "as it is": lambda token: token,
    "quoted": lambda token: "".join(f"%{ord(char):02X}" for char in token),
    "quoted in part": lambda token: token[:5] + f"%{ord(token[5]):02x}" + token[6:],
    "quoted twice": lambda token: token[:5] + quote(f"%{ord(token[5]):02x}") + token[6:],
    "base64": lambda token: base64.b64encode(f"Bearer {token}".encode()).decode(),
    "base64url": lambda token: base64.urlsafe_b64encode(f"x={token}&".encode()).decode(),
    "hex": lambda token: token.encode().hex(),
    "escaped": escaped,
}


def forms_of(token):
    """The texts in which `token` would be recognised."""
    forms = {form(token) for form in FORMS.values()} | {token.lower()}
    return forms | {base64.b64encode(token.encode()).decode().rstrip("=")[:-2]}


def assert_clean(text, *, only=None, forms=None):
    """Assert that `text` holds none of the `forms`: of the secret `only`, or of all."""
    forms = forms or ([only] if only else SECRETS)
    assert not [form for form in forms if form in text or form.lower() in text], text[:2000]


def assert_no_secret_in(error, *, only=None, forms=None):
    """Look at all that a traceback printer, a debugger or an error tracker would show.

    That is each variable of each frame of ours. With `forms`, which a peer has sent, look also into
    objects of ours.
    """
    is_echo = forms is not None
    forms = forms or ([only] if only else SECRETS)
    seen, pending = set(), [error]
    while pending:
        link = pending.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        assert_clean(str(link) + repr(link) + repr(vars(link)), forms=forms)
        for frame, _ in traceback.walk_tb(link.__traceback__):
            if frame.f_code.co_filename.startswith(PACKAGE):
                assert_clean(repr(frame.f_locals), forms=forms)
                if is_echo:
                    assert_clean_inside(frame.f_locals, forms, set())
        pending += [link.__cause__, link.__context__]
    assert_clean("".join(traceback.format_exception(error)), forms=forms)
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    for frame in shown.stack:
        if frame.filename.startswith(PACKAGE):
            assert_clean(repr(frame.locals), forms=forms)
    if isinstance(error, holdfast.errors.ClientError):
        assert_clean(repr(pickle.dumps(error)), forms=forms)


def assert_clean_inside(value, forms, seen):
    """Look at `value` and into it; of others' objects, at what they show."""
    if id(value) in seen or isinstance(value, Secret):
        return
    seen.add(id(value))
    if isinstance(value, dict):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inside = [*value]
    else:
        assert_clean(repr(value), forms=forms)
        inside = []
        if type(value).__module__.startswith("holdfast"):
            inside += getattr(value, "__dict__", {}).values()
            kinds = type(value).__mro__
            slots = [name for kind in kinds for name in vars(kind).get("__slots__", ())]
            inside += [getattr(value, name, None) for name in slots]
    for part in inside:
        assert_clean_inside(part, forms, seen)


def assert_clean_log(records, forms=SECRETS):
    for record in records:
        assert_clean(record.getMessage() + repr(vars(record)), forms=forms)
        if record.exc_info:
            assert_clean(logging.Formatter().formatException(record.exc_info), forms=forms)
