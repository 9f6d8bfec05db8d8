"""The `provider_options` of the service's v3 API."""

from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from holdfast.config import ClientConfig, checks
from holdfast.config.client_config import check_secure
from holdfast.errors import ConfigError

Network = Literal["public", "private"]

UPLOAD_URL: Final = "https://uploads.pinata.cloud/v3"
VERSION: Final = "/v3"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinataOptions:
    """What only this provider needs.

    Attributes:
        network: Where files are stored and listed.
        group: The id of the group to which new files are added; None for none.
        expires: The seconds after which the service deletes new files; None for never.
        upload_url: The address for uploads, with the version.
        spool: Whether a source that can be read only once is first written to a temporary file.
    """

    network: Network
    group: str | None
    expires: int | None
    upload_url: str
    spool: bool

    @classmethod
    def of(cls, config: ClientConfig) -> "PinataOptions":
        """Return the options of `config`; raise ConfigError for a mistake. No value is shown."""
        given = config.provider_options
        for name in given:
            if name not in cls.__slots__:
                known = ", ".join(cls.__slots__)
                raise ConfigError(f"provider_options: pinata takes {known}, not {name!r}")
        network = given.get("network", "public")
        if network not in ("public", "private"):
            raise ConfigError("provider_options: network must be 'public' or 'private'")
        if network == "private" and config.gateway_url is None:
            raise ConfigError(
                "gateway_url is missing: private files are read through your own gateway, "
                "such as https://example.mypinata.cloud"
            )
        expires = given.get("expires")
        if expires is not None:
            checks.whole("provider_options: expires", expires)
        return cls(
            network=cast("Network", network),
            group=_group_id(given.get("group")),
            expires=expires,
            upload_url=_upload_url(given.get("upload_url"), config),
            spool=checks.flag("provider_options: spool", given.get("spool", True)),
        )


def _group_id(group: Any) -> str | None:
    if group is not None and not (isinstance(group, str) and group.strip()):
        raise ConfigError("provider_options: group must be the id of a group, as text")
    return group


def _upload_url(given: Any, config: ClientConfig) -> str:
    """Return the address for uploads: the one that is given, else one that fits `pin_api_url`."""
    if given is not None:
        url = checks.base_url("provider_options: upload_url", given)
        if "?" in url or "@" in url:
            raise ConfigError("provider_options: upload_url must hold no user name and no query")
        check_secure("provider_options: upload_url", url, config)
        return url
    return UPLOAD_URL if config.pin_api_url is None else api_root(config) + VERSION


def api_root(config: ClientConfig) -> str:
    """Return the address of the API without its version, which users may give or leave out."""
    return config.api_url.removesuffix(VERSION)
