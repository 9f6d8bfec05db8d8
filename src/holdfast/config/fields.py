"""The table of configuration fields: one row for each field, with all that is known about it.

Below the table: the wrapping of secrets, and how the ``HOLDFAST_*`` variables are read.

The checks of `ClientConfig`, the wrapping of secrets, the ``HOLDFAST_*`` variables, the rules for
``holdfast.toml``, the options of the command line, ``help(ClientConfig)`` and the reference page
derive from it. To add a field, add a row here and a line each to `ConfigFields` and `ClientConfig`,
which type checkers read. A test compares the three.
"""

import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from holdfast import registry
from holdfast.config import checks, limits
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.hints import did_you_mean

Resource = Literal["connections", "repository"]
Function = TypeVar("Function", bound=Callable[..., Any])
MAX_DIGITS: Final = 30  # Python itself refuses thousands
FLAGS: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
MAX_NAME: Final = 40  # characters; a longer text where a short name belongs may be a credential


class Option(NamedTuple):
    """How a field appears as an option of the command line.

    Attributes:
        group: The group of options that it belongs to. A command takes one or several groups.
        metavar: What the help calls its value.
        flags: How the option is written, if not as the field's name.
    """

    group: Literal["connection", "gateway", "verify", "store", "layout", "cache"]
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
    def is_folder(self) -> bool:
        """Whether it is a path of the file system."""
        return self.check is checks.path


# Readers: each takes the name of a variable and its text, and returns the value of a field or
# raises a `ConfigError` that names the variable. The field's check then applies to the value.


def read_text(_: str, value: str) -> str:
    """Return the text without outer whitespace."""
    return value.strip()


def read_secret(_: str, value: str) -> Secret:
    """Wrap a credential."""
    return Secret(value)


def read_list(_: str, value: str) -> tuple[str, ...]:
    """Split a list at its commas."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


def read_secret_list(_: str, value: str) -> Secret:
    """Wrap a list with commas; on a line each."""
    return Secret("\n".join(read_list(_, value)))


def read_flag(variable: str, value: str) -> bool:
    """Read ``true``, ``yes``, ``on`` or ``1``, or one of their opposites."""
    if value.strip().lower() not in FLAGS:
        raise ConfigError(f"{variable} must be true or false")
    return FLAGS[value.strip().lower()]


def read_whole(variable: str, value: str) -> int:
    """Read a whole number."""
    if not value.strip().isdecimal() or len(value) > MAX_DIGITS:
        raise ConfigError(f"{variable} must be a whole number")
    return int(value)


def read_number(variable: str, value: str) -> float:
    """Read a number."""
    try:
        return float(value)
    except ValueError:
        raise ConfigError(f"{variable} must be a number") from None


def read_numbers(variable: str, value: str) -> dict[str, float]:
    """Read numbers by name, such as ``attempts=6, cap=5``."""
    pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
    try:
        return {
            name.strip(): int(number) if number.strip().isdecimal() else float(number)
            for name, _, number in pairs
        }
    except ValueError:
        raise ConfigError(f"{variable} must be numbers by name, such as name=5") from None


def read_options(variable: str, value: str) -> dict[str, Any]:
    """Read a JSON object, such as ``{"network": "private"}``. Its values may be secret."""
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        return parsed
    del value, parsed
    raise ConfigError(f'{variable} must be a JSON object, such as {{"name": "value"}}')


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
    Field("provider", checks.provider, read_text,
          f"{_BUILT_IN}, or the name of an installed provider.",
          file="project", bound_to=("connections", "repository"), endpoint=True,
          option=Option("connection", "NAME")),
    Field("provider_token", checks.token, read_secret,
          "The provider's credential: a JWT; for `kubo`, `cluster` and `psa` a bearer token, or "
          "`user:password`. `Bearer` before it and outer whitespace are removed.",
          secret=True, sent_to="provider", endpoint=True),
    Field("gateway_url", checks.gateways, read_list,
          "One or more gateways for reads, tried in order. An empty path becomes `/ipfs`. "
          f"If None, the defaults are: {_GATEWAYS}; `local` and `kubo` need none.",
          file="project", endpoint=True, option=Option("gateway", "URL")),
    Field("gateway_token", checks.token, read_secret,
          "A credential for the first gateway, if it requires one.",
          secret=True, sent_to="gateway_url", endpoint=True),
    Field("witness", checks.gateways, read_list,
          "One or more gateways that show which blocks the provider itself has, because they "
          "fetch nothing from others, such as the gateway of your own node. Only used for proofs; "
          "they do not get the API's token.",
          endpoint=True),
    Field("pin_api_url", checks.api_urls, read_list,
          f"The base address of the provider's API. If None, the defaults are: {_API_URLS}; `psa` "
          "has none. For `cluster`, you can list several peers: if one fails, the next is asked.",
          endpoint=True, option=Option("connection", "URL")),
    Field("cid_version", checks.cid_version, read_whole,
          "The version of new CIDs: 0 or 1.", file="project", option=Option("layout", "0|1")),
    Field("profile", checks.profile, read_text,
          f"How content is cut into blocks: {', '.join(checks.PROFILES)}. "
          "None follows `cid_version`.", file="project", option=Option("layout", "NAME")),
    Field("verify", checks.flag, read_flag,
          "Verify what is read against its CID.",
          option=Option("verify", flags="--verify/--no-verify")),
    Field("timeouts", limits.timeouts, read_numbers,
          "How long to wait: `Timeouts`, or a mapping of its fields.", file="project"),
    Field("retries", limits.retries, read_numbers,
          "How often to send a failed request again: `Retries`, or a mapping of its fields.",
          file="project"),
    Field("rate_limit", checks.rate, read_number,
          "The most requests per minute from all threads or tasks together, evenly spaced. "
          "If None, there is no limit.", file="project"),
    Field("hedge_after", checks.seconds, read_number,
          "How many seconds a gateway may take to begin its answer before the next is asked too. "
          "The first verified answer wins. If None, the next is asked only after a failure.",
          file="project"),
    Field("max_json_bytes", checks.whole, read_whole,
          "The largest JSON document that `retrieve` and `receive` accept.", file="project"),
    Field("max_unverified_bytes", checks.whole, read_whole,
          "How many bytes to accept of a file that can be verified only at its end, if no verified "
          "block gives its size. A `Content-Length` does not raise this limit."),
    Field("path", checks.path, read_text,
          "The folder of the store on your disk. If None, it is the system's folder for user data. "
          "For provider `car`, the archive; `-` is standard input. For `copies`, the ledger. The "
          "flag uses that store even if another provider is set.",
          bound_to=("repository",), option=Option("store", "FOLDER")),
    Field("cache_path", checks.path, read_text,
          "The folder for the cache of blocks, and for the verified bytes of interrupted "
          "downloads. If None, it is the system's folder for caches.",
          option=Option("cache", "FOLDER")),
    Field("cache_bytes", checks.size, read_whole,
          "How many bytes of verified blocks to keep in `cache_path`, so that parts of files and "
          "directories need not be fetched again. 0 keeps none.", option=Option("cache", "BYTES")),
    Field("on_event", checks.hook, None,
          "A function that is called with each `Event`, for metrics and traces. "
          "See `holdfast.events`.", file="none"),
    Field("proxy", checks.proxy, read_secret,
          "The proxy for all requests, as `http://user:password@host:port`.",
          secret=True, bound_to=("connections",)),
    Field("trust_env", checks.flag, read_flag,
          "Use the proxy from `HTTPS_PROXY` and similar environment variables.",
          bound_to=("connections",)),
    Field("ssl_context", checks.ssl_context, None,
          "The TLS settings, for a CA of your own: `ssl.create_default_context(cafile=…)`.",
          file="none", bound_to=("connections",)),
    Field("allow_insecure", checks.flag, read_flag,
          "Allow a token to be sent over plain HTTP to another machine.",
          endpoint=True, option=Option("connection", flags="--allow-insecure")),
    Field("recipients", checks.recipients, read_list,
          "Who can read what you encrypt: recipients (`age1pq1…` or `age1…`), names of keys that "
          "`holdfast keygen` made, or paths of key files, which must contain a slash."),
    Field("identities", checks.identities, read_secret_list,
          "The keys that decrypt content: names of keys, paths of key files, which must contain a "
          "slash, or the keys themselves.", secret=True),
    Field("provider_options", checks.options, read_options,
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


def check_unchanged(names: Iterable[str], config: object, new: object) -> None:
    """Raise ConfigError if `new` changes one of the fields `names`, which clients share."""
    for name in names:
        if getattr(new, name) != getattr(config, name):
            raise ConfigError(f"with_options cannot change {name}: make a new client")


def unknown_field(name: str, others: Iterable[str] = (), kind: str = "field") -> str:
    """Return the error for a name that is neither a field, of this `kind`, nor one of `others`."""
    names = (*FIELDS, *others)
    hint = did_you_mean(name, names, _MEANT) or f"the {kind}s are {', '.join(names)}"
    return f"unknown {kind} {name!r}: {hint}"


def unknown_variable(variable: str) -> str:
    """Return the message for a variable that begins as ours do, and that nothing reads."""
    question = did_you_mean(variable.removeprefix("HOLDFAST_").lower(), FIELDS, _MEANT)
    names = re.sub(r"'(\w+)'", lambda field: FIELDS[field[1]].variable, question)
    return f"unknown variable {variable}" + (f": {names}" if names else "")


# Tracebacks and error trackers show the local variables of every frame. So a value that may be a
# secret is wrapped before any function that can fail holds it in a variable.


def takes_secrets(function: Function) -> Function:
    """Decorate a function that takes configuration values, so that it gets their secrets wrapped.

    Mappings and keyword arguments are wrapped by field name. A plain string or bytes argument is
    wrapped as a whole: it may be a token in the place of a configuration.
    """
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def awaited(*args: Any, **fields: Any) -> Any:
            args, fields = tuple(map(_wrap_argument, args)), wrap_secrets(fields)
            return await function(*args, **fields)

        return cast("Function", awaited)

    @wraps(function)
    def call(*args: Any, **fields: Any) -> Any:
        # The variables of this frame are shown, too: they must not keep what was passed.
        args, fields = tuple(map(_wrap_argument, args)), wrap_secrets(fields)
        return function(*args, **fields)

    return cast("Function", call)


def wrap_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration `values` by field name, with the secrets among them wrapped."""
    return {name: wrap_secret(name, values[name]) for name in values}


def wrap_secret(name: str, value: Any) -> Any:
    """Return the `value` of the field `name`, wrapped if it is or may be a secret.

    A field that does not exist may be a secret field whose name is mistyped. A URL with a user name
    or a query may hold a credential, and so may a long text where a short name belongs. Checks
    refuse such values later, without showing them.
    """
    if value is None or isinstance(value, Secret):
        return value
    field = _BY_SPELLING.get(_spelling(name))
    if field is None or field.secret:
        return Secret(value)
    if isinstance(value, list | tuple):
        kind = checks.LinkGateways if isinstance(value, checks.LinkGateways) else tuple
        return kind(wrap_secret(name, url) for url in value)
    if field.check in (checks.api_urls, checks.gateways):
        is_safe = not (isinstance(value, str) and ("@" in value or "?" in value))
    else:
        is_safe = field.is_folder or not isinstance(value, str | bytes) or len(value) <= MAX_NAME
    return value if is_safe else Secret(value)


def _wrap_argument(value: Any) -> Any:
    if isinstance(value, Mapping):
        return wrap_secrets(value)
    return Secret(value) if isinstance(value, str | bytes) else value  # type: ignore[arg-type]


def _spelling(name: object) -> str:
    """Return `name` in lower case without underscores, the same for both spellings of a field."""
    return str(name).lower().replace("_", "")


_BY_SPELLING: Final = {_spelling(name): field for name, field in FIELDS.items()}


def read_environment(names: Iterable[str]) -> dict[str, Any]:
    """Return the values of those fields whose variables are set and not blank, secrets wrapped."""
    values = {}
    for field in map(FIELDS.__getitem__, names):
        variable = field.variable
        if not os.environ.get(variable, "").strip():
            continue
        if (read := field.read) is None:
            raise ConfigError(f"{variable}: {field.name} cannot be set from the environment")
        values[field.name] = wrap_secret(field.name, read(variable, os.environ[variable]))
    return values
