"""All errors that Holdfast defines.

    ClientError(Exception)                          .name  .message
    ├── ConfigError(ValueError)                     a field of the configuration is wrong
    │   └── UnsupportedError(NotImplementedError)   the provider cannot do this
    ├── InvalidCIDError(ValueError)                 "Invalid CID"; .reason  .details
    ├── SerializationError(ValueError)              not JSON, or not of the expected shape
    ├── NetworkError(ConnectionError)               connection failed or broke; .sent
    │   └── RequestTimeoutError(TimeoutError)       no answer or progress in time
    ├── ClientClosedError(RuntimeError)             used after close
    ├── NotAFileError(IsADirectoryError)            the CID names a directory
    ├── TooLargeError                               .limit  .size; larger than max_bytes
    ├── NotEncryptedError(ValueError)               the content is not an age file
    ├── NoKeyError                                  no identity opens the content
    ├── ProviderError                               .status  .details  .request_id  .retry_after
    │   ├── AuthenticationError                     401
    │   ├── PermissionDeniedError                   403
    │   ├── NotFoundError                           404, or not pinned
    │   │   └── NotAFolderError(NotADirectoryError) the CID names a file
    │   └── RateLimitError                          429
    └── VerificationError                           .cid; the bytes do not match the CID
        ├── DecryptionError                         encrypted content was changed or cut off
        ├── MalformedError(ValueError)              a block, CAR or header is malformed or too large
        └── UnprovenError                           the bytes cannot be verified

An argument of a wrong type raises the built-in ``TypeError``, an empty recipient ``ValueError``,
and a problem with a local file the ``OSError`` of ``open``.

Messages, details and request ids may be words of a peer. They never contain a control character, so
that an error in a log is one line: see `single_line`.
"""

from holdfast.single_line import quoted, single_line, without_queries


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
        message = without_queries(single_line(message))
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
    """The argument is not a CID. Nothing was sent.

    Attributes:
        reason: Why it is not a CID. The message itself is fixed: "Invalid CID".
        details: The argument, shortened and without its query, and the reason. A note has it too.

    Example:
        >>> from holdfast import verify
        >>> from holdfast.errors import InvalidCIDError
        >>> try:
        ...     verify(b"hello", "bafkrei…lcgq")
        ... except InvalidCIDError as error:
        ...     print(error, "-", error.details)
        Invalid CID - 'bafkrei…lcgq' is not a CID: its middle is missing: copy all of it
    """

    def __init__(
        self, message: str = "Invalid CID", *, reason: str = "", value: str | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.details: str = reason if value is None else f"{quoted(value)} is not a CID: {reason}"
        if self.details:
            self.add_note(self.details)


class SerializationError(ClientError, ValueError):
    """A value is not JSON-compatible, or the content is not the expected JSON."""


class NetworkError(ClientError, ConnectionError):
    """The provider or gateway could not be reached, or the connection broke.

    Attributes:
        sent: Whether the whole request was sent, so that the peer may have acted on it.
        transient: Whether sending it again may help. It does not for a wrong certificate.
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
    """A directory was read as a file."""


class TooLargeError(ClientError):
    """The content is larger than the limit of the call, such as `max_bytes`. Nothing was written.

    Attributes:
        limit: The limit, in bytes.
        size: The size of the content as far as it is known, or None.
    """

    def __init__(self, message: str, *, limit: int = 0, size: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.size = size


class NotEncryptedError(ClientError, ValueError):
    """Content that must be encrypted is not: it is not an age file. Nothing was returned."""


class NoKeyError(ClientError):
    """None of the identities opens the content: it was encrypted for other readers."""


class ProviderError(ClientError):
    """The provider or gateway replied with an error.

    Attributes:
        status: The HTTP status, or None where the provider is not an HTTP service.
        details: The provider's own message, if it sent one.
        request_id: The provider's identifier of the request, for a support ticket.
        retry_after: The seconds that the provider asks to wait, if it does.
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
        self.details: str | None = None if details is None else single_line(details)
        self.request_id: str | None = None if request_id is None else single_line(request_id)
        self.retry_after = retry_after


class AuthenticationError(ProviderError):
    """HTTP 401: the token is invalid or has expired."""


class PermissionDeniedError(ProviderError):
    """HTTP 403: the token lacks the access that this call needs."""


class NotFoundError(ProviderError):
    """The content does not exist there, or is not pinned.

    That is HTTP 404, what the embedded store does not have, and what a service says in other ways:
    the pinning API replies to `revoke` of content that is not pinned with 400, Kubo with 500. The
    message and `status` are the service's own.
    """


class NotAFolderError(NotFoundError, NotADirectoryError):
    """A file was read as a directory."""


class RateLimitError(ProviderError):
    """HTTP 429: too many requests. ``retry_after`` is the wait that is asked for, in seconds."""


class VerificationError(ClientError):
    """The received bytes do not match the CID. They were not returned to the caller."""

    def __init__(self, message: str, *, cid: str | None = None) -> None:
        super().__init__(message)
        self.cid = cid


class DecryptionError(VerificationError):
    """Encrypted content was changed, cut off or extended after it was encrypted.

    The CID may be right all the same: it names what somebody has stored. Nothing was returned of
    the part that is wrong.
    """


class MalformedError(VerificationError, ValueError):
    """A block, a DAG, a CAR or an age header breaks the rules of its format, or our limits."""


class UnprovenError(VerificationError):
    """The bytes cannot be verified: no known layout fits, or the hash function is unknown."""
