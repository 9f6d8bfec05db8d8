"""The table of configuration fields: one row for each field, with all that is known about it.

The checks of `ClientConfig`, the wrapping of secrets, the ``HOLDFAST_*`` variables, the rules for
``holdfast.toml``, the options of the command line, ``help(ClientConfig)`` and the reference page
derive from it. To add a field, add a row here and a line each to `ConfigFields` and `ClientConfig`,
which type checkers read. A test compares the three.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

from holdfast import registry
from holdfast.config import checks, limits, readers
from holdfast.hints import did_you_mean

Resource = Literal["connections", "repository"]


class Option(NamedTuple):
    """How a field appears as an option of the command line.

    Attributes:
        group: The group of options that it belongs to. A command takes one or several groups.
        metavar: What the help calls its value.
        flags: How the option is written, if not as the field's name.
    """

    group: Literal["connection", "store", "layout", "cache"]
    metavar: str | None = None
    flags: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """What is known about one field of the configuration.

    Attributes:
        name: Its name in `ClientConfig`.
        check: Takes the name and a value. Returns the value in its stored form, or raises.
        read: Turns the text of its environment variable into a value; None if no variable sets it.
        help: What it means, in Markdown. Its first sentence is the help of the option.
        secret: Whether its value is wrapped as a `Secret`, and masked wherever it is shown.
        sent_to: For a secret, the field that decides where it is sent.
        file: Whose ``holdfast.toml`` may set it. A project's file came with somebody's repository:
            it may hold no secret, not set where yours are sent, turn off no check, and choose no
            folder in which files are made and removed.
        bound_to: The resources that it belongs to. A client that shares one with another client
            cannot change the field.
        endpoint: Whether it decides where content and tokens go, or is a token. A named connection
            has a value for each of these fields: its own, or the default.
        option: Its option on the command line, if it has one.
    """

    name: str
    check: Callable[[str, Any], Any]
    read: Callable[[str, str], Any] | None
    help: str
    secret: bool = False
    sent_to: str | None = None
    file: Literal["none", "user", "project"] = "user"
    bound_to: tuple[Resource, ...] = ()
    endpoint: bool = False
    option: Option | None = None

    @property
    def variable(self) -> str:
        """Its environment variable: ``HOLDFAST_`` and the name in capitals."""
        return f"HOLDFAST_{self.name.upper()}"

    @property
    def summary(self) -> str:
        """The first sentence of its help, without markup."""
        return self.help.partition(". ")[0].removesuffix(".").replace("`", "") + "."

    @property
    def is_url(self) -> bool:
        """Whether it is one address or several."""
        return self.check in (checks.api_urls, checks.gateways)

    @property
    def is_folder(self) -> bool:
        """Whether it is a path of the file system."""
        return self.check is checks.path


_SHOWN: Final = {name: row for name, row in registry.BUILT_IN.items() if row.stands_for is None}
_BUILT_IN: Final = ", ".join(f"`{name}`" for name in _SHOWN)
_API_URLS: Final = ", ".join(
    f"`{row.api_url}` for `{name}`" for name, row in _SHOWN.items() if row.api_url is not None
)
_GATEWAYS: Final = "; ".join(
    f"`{'` and `'.join(urls)}` for `{'` and `'.join(names)}`"
    for urls, names in groupby(_SHOWN, lambda name: _SHOWN[name].gateways)
    if urls
)

# A table reads better in rows than with an argument on each line.
# fmt: off
_ROWS: Final = (
    Field("provider", checks.provider, readers.text,
          f"{_BUILT_IN}, or the name of an installed provider.",
          file="project", bound_to=("connections", "repository"), endpoint=True,
          option=Option("connection", "NAME")),
    Field("provider_token", checks.token, readers.secret,
          "The provider's credential: a JWT; for `kubo`, `cluster` and `psa` a bearer token, or "
          "`user:password`. "
          "Outer whitespace is removed.",
          secret=True, sent_to="provider", endpoint=True),
    Field("gateway_url", checks.gateways, readers.several,
          "The gateway for reads, or several, tried in order. An empty path becomes `/ipfs`. "
          f"None is the usual ones: {_GATEWAYS}; `local` and `kubo` need none.",
          file="project", endpoint=True, option=Option("connection", "URL")),
    Field("gateway_token", checks.token, readers.secret,
          "A credential for the first gateway, if it requires one.",
          secret=True, sent_to="gateway_url", endpoint=True),
    Field("pin_api_url", checks.api_urls, readers.several,
          f"The base address of the provider's API. None is the usual one: {_API_URLS}; "
          "`psa` has none. "
          "For `cluster` also several, each of a peer: if one fails, the next is asked.",
          endpoint=True, option=Option("connection", "URL")),
    Field("cid_version", checks.cid_version, readers.whole,
          "The version of new CIDs: 0 or 1.", file="project", option=Option("layout", "0|1")),
    Field("profile", checks.profile, readers.text,
          f"How content is cut into blocks: {', '.join(checks.PROFILES)}. "
          "None follows `cid_version`.", file="project", option=Option("layout", "NAME")),
    Field("verify", checks.flag, readers.flag,
          "Verify what is read against its CID.",
          option=Option("connection", flags="--verify/--no-verify")),
    Field("timeouts", limits.timeouts, readers.numbers,
          "How long to wait: `Timeouts`, or a mapping of its fields.", file="project"),
    Field("retries", limits.retries, readers.numbers,
          "How often to send a failed request again: `Retries`, or a mapping of its fields.",
          file="project"),
    Field("rate_limit", checks.rate, readers.number,
          "The most requests a minute, evenly spaced, over all threads or tasks of the client. "
          "None is no limit.", file="project"),
    Field("hedge_after", checks.seconds, readers.number,
          "Seconds after which a read that a gateway has not begun to answer is also sent to the "
          "next gateway. The first verified answer wins. None waits for the first to fail.",
          file="project"),
    Field("max_json_bytes", checks.whole, readers.whole,
          "The largest JSON document that `retrieve` and `receive` accept.", file="project"),
    Field("max_unverified_bytes", checks.whole, readers.whole,
          "How many bytes of a file a gateway may send that can be verified only at the end, "
          "where no verified block gives the size. A `Content-Length` does not raise it."),
    Field("path", checks.path, readers.text,
          "The folder of the embedded store. None is the platform's folder for user data.",
          bound_to=("repository",), option=Option("store", "FOLDER")),
    Field("cache_path", checks.path, readers.text,
          "The folder in which downloads to a file keep what is verified so far, to resume after "
          "an interruption, and the cache of blocks. None is the platform's folder for caches.",
          option=Option("cache", "FOLDER")),
    Field("cache_bytes", checks.size, readers.whole,
          "How many bytes of verified blocks to keep in `cache_path`, for parts of files and "
          "directories that are read again. 0 keeps none.", option=Option("cache", "BYTES")),
    Field("on_event", checks.hook, None,
          "A function that is called with each `Event`, for metrics and traces. "
          "See `holdfast.events`.", file="none"),
    Field("proxy", checks.proxy, readers.secret,
          "The proxy for all requests, as `http://user:password@host:port`.",
          secret=True, bound_to=("connections",)),
    Field("trust_env", checks.flag, readers.flag,
          "Take the proxy from `HTTPS_PROXY` and similar environment variables.",
          bound_to=("connections",)),
    Field("ssl_context", checks.ssl_context, None,
          "The TLS settings, for a CA of your own: `ssl.create_default_context(cafile=…)`.",
          file="none", bound_to=("connections",)),
    Field("allow_insecure", checks.flag, readers.flag,
          "Allow a token to be sent over plain HTTP to another machine.",
          endpoint=True, option=Option("connection", flags="--allow-insecure")),
    Field("provider_options", checks.options, readers.options,
          "Options that only one provider needs; in the environment, a JSON object. They may be "
          "secret and are never shown.",
          secret=True, sent_to="provider", endpoint=True),
)
# fmt: on

FIELDS: Final[Mapping[str, Field]] = {row.name: row for row in _ROWS}

_OTHER_NAMES: Final[Mapping[tuple[str, ...], str]] = {
    ("provider",): "service backend",
    ("provider_token",): "token jwt key secret password auth apikey apitoken accesstoken authtoken "
    "pinatajwt pinataapikey pinatasecretapikey",
    ("gateway_url",): "gateway gateways pinatagateway ipfsgateway",
    ("gateway_token",): "gatewaykey pinatagatewaykey",
    ("pin_api_url",): "api endpoint apiurl",
    ("pin_api_url", "gateway_url"): "url urls baseurl address host",
    ("cid_version",): "version",
    ("timeouts",): "timeout",
    ("retries",): "retry maxretries attempts",
    ("path",): "folder directory dir store storage repo repository datadir",
    ("cache_path",): "cache cachedir cachefolder",
    ("proxy",): "proxies httpproxy httpsproxy",
    ("ssl_context",): "ssl tls cert certificate ca cafile verifyssl",
    ("allow_insecure",): "insecure",
    ("provider_options",): "options",
}
"""Other words for fields, in lower case without underscores: of other libraries, and guesses."""

_MEANT: Final = {word: fields for fields, words in _OTHER_NAMES.items() for word in words.split()}


def fields_bound_to(resource: Resource) -> tuple[str, ...]:
    """Return the names of the fields that clients with a shared `resource` have in common."""
    return tuple(name for name, field in FIELDS.items() if resource in field.bound_to)


def unknown_field(name: str, others: Iterable[str] = ()) -> str:
    """Return the error message for a name that is neither a field nor one of `others`."""
    known = (*FIELDS, *others)
    hint = did_you_mean(name, known, _MEANT) or f"the fields are {', '.join(known)}"
    return f"unknown field {name!r}: {hint}"
