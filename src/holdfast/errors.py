"""Every error that Holdfast raises of its own accord.

    ClientError(Exception)                          .name  .message
    ├── ConfigError(ValueError)                     a field of the configuration is wrong
    │   └── UnsupportedError(NotImplementedError)   the provider cannot do this
    ├── InvalidCIDError(ValueError)                 "Invalid CID"; .reason
    ├── SerializationError(ValueError)              not JSON, or not of the expected shape
    ├── NetworkError(ConnectionError)               nobody reached, or the line broke; .sent
    │   └── RequestTimeoutError(TimeoutError)       … in the time allowed
    ├── ClientClosedError(RuntimeError)             used after close
    ├── NotAFileError(IsADirectoryError)            the CID names a directory
    ├── ProviderError                               .status  .details  .request_id  .retry_after
    │   ├── AuthenticationError                     401
    │   ├── PermissionDeniedError                   403
    │   ├── NotFoundError                           404
    │   └── RateLimitError                          429
    └── VerificationError                           .cid; the bytes are not what the CID names
        ├── MalformedError(ValueError)              a block or CAR that nobody can read, or a bomb
        └── UnprovenError                           not disproven, but no way to prove them

Wrong argument types are the built-in ``TypeError``, an empty recipient is a ``ValueError``, and
trouble with a local file is the ``OSError`` that ``open`` raises.
"""


class ClientError(Exception):
    """The base of all Holdfast errors; ``str(error)`` is the message.

    Example:
        >>> from holdfast.errors import ClientError, InvalidCIDError
        >>> try:
        ...     raise InvalidCIDError
        ... except ClientError as error:
        ...     print(error.name, "-", error.message)
        InvalidCIDError - Invalid CID
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def name(self) -> str:
        """The name of the error's class."""
        return type(self).__name__


class ConfigError(ClientError, ValueError):
    """A field of the configuration is missing or wrong; the message says which and what to do."""


class UnsupportedError(ConfigError, NotImplementedError):
    """The configured provider cannot do this. Nothing was sent; the message names an alternative.

    Example:
        >>> from holdfast.errors import ConfigError, UnsupportedError
        >>> issubclass(UnsupportedError, ConfigError)
        True
    """


class InvalidCIDError(ClientError, ValueError):
    """What was given is not a CID. Nothing was sent.

    Attributes:
        reason: What is wrong with it; the message is the spec's, to the letter.
    """

    def __init__(self, message: str = "Invalid CID", *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class SerializationError(ClientError, ValueError):
    """A value is not JSON-compatible, or what was read is not the JSON that was expected."""


class NetworkError(ClientError, ConnectionError):
    """The provider or gateway could not be reached, or the connection broke.

    Attributes:
        sent: Whether the request had gone out whole, so that the peer may have acted on it.
        transient: Whether sending it again may help; a wrong certificate stays wrong.
    """

    def __init__(self, message: str, *, sent: bool = False, transient: bool = True) -> None:
        super().__init__(message)
        self.sent = sent
        self.transient = transient


class RequestTimeoutError(NetworkError, TimeoutError):
    """The provider or gateway did not answer, or made no progress, in the time allowed."""


class ClientClosedError(ClientError, RuntimeError):
    """The client was used after it was closed."""

    def __init__(self, message: str = "This client is closed; make a new one with init().") -> None:
        super().__init__(message)


class NotAFileError(ClientError, IsADirectoryError):
    """The CID names a directory, and was read as a file."""


class ProviderError(ClientError):
    """The provider or gateway answered, and the answer is a failure.

    Attributes:
        status: The HTTP status, or None where the provider is not an HTTP service.
        details: The provider's own words, where it had any.
        request_id: What the provider calls this request, for a support ticket.
        retry_after: The wait in seconds that the provider asked for, where it did.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        details: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.details = details
        self.request_id = request_id
        self.retry_after = retry_after


class AuthenticationError(ProviderError):
    """HTTP 401: the token is invalid or has expired."""


class PermissionDeniedError(ProviderError):
    """HTTP 403: the token lacks the access that this call needs."""


class NotFoundError(ProviderError):
    """HTTP 404, or nothing in the embedded store: the content is not there."""


class RateLimitError(ProviderError):
    """HTTP 429: too many requests. ``retry_after`` is the wait asked for, in seconds."""


class VerificationError(ClientError):
    """The bytes that came are not those that the CID names. Nothing of them was handed out."""

    def __init__(self, message: str, *, cid: str | None = None) -> None:
        super().__init__(message)
        self.cid = cid


class MalformedError(VerificationError, ValueError):
    """A block, a DAG or a CAR breaks the rules of its format, or the limits that keep us safe."""


class UnprovenError(VerificationError):
    """The bytes are neither proven nor disproven: no known layout fits, or the hash is unknown."""
