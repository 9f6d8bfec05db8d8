"""An authority of the tests' own, and the contexts of TLS for its servers and for their clients."""

import ssl
from functools import cache

import trustme


@cache
def authority():
    return trustme.CA()


def serving(host="127.0.0.1"):
    """The context of a server with a certificate for `host`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority().issue_cert(host).configure_cert(context)
    return context


def trusting():
    """The context of a client that trusts the authority."""
    context = ssl.create_default_context()
    authority().configure_trust(context)
    return context
