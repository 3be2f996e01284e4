"""The TLS sections of the configuration, and whether a client's certificate may reach the brokers
(``clients_share_identity``). Paths are relative to the configuration's folder.

Only the keys are checked here; ``proxy.transport.tls_context`` checks the files.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec import Meta
from msgspec.structs import replace

from proxy.config.host_names import check_host
from proxy.config.section import Section


class TlsVersion(StrEnum):
    """The lowest accepted version of TLS; older ones are insecure."""

    TLS_1_2 = "1.2"
    TLS_1_3 = "1.3"


class ClientAuth(StrEnum):
    """Whether clients must show a certificate (Kafka: `ssl.client.auth`)."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


_MinVersion = Annotated[TlsVersion, Meta(description="Lowest version of TLS, `1.2` or `1.3`.")]


class ListenerTls(Section, frozen=True, kw_only=True):
    """TLS towards clients. The files are read again when they change, and at SIGHUP."""

    certificate: Annotated[
        str, Meta(min_length=1, description="PEM file with the certificate and its chain, for all ports.")
    ]
    key: Annotated[str, Meta(min_length=1, description="PEM file with the certificate's private key.")]
    key_password_file: Annotated[
        str | None, Meta(description="File with the password of the key; `null` if it is not encrypted.")
    ] = None
    client_ca: Annotated[
        str | None,
        Meta(description="PEM file with the authorities whose client certificates are accepted."),
    ] = None
    client_crl: Annotated[
        str | None,
        Meta(
            description="PEM file with the revocation lists (CRLs) of all authorities in `client_ca`: a client whose "
            "certificate is on its authority's list is refused, and every client of that authority once the list is "
            "out of date. Open connections stay. `null`: no certificate is revoked."
        ),
    ] = None
    client_auth: Annotated[
        ClientAuth,
        Meta(
            description="Whether clients must show a certificate. It is checked here and says nothing to the "
            "brokers, where ACLs see the SASL principal only."
        ),
    ] = ClientAuth.NONE
    min_version: _MinVersion = TlsVersion.TLS_1_2

    def __post_init__(self) -> None:
        """Check that ``client_auth`` and ``client_ca`` are set together."""
        if self.client_auth is not ClientAuth.NONE and self.client_ca is None:
            raise ValueError(f"`client_auth: {self.client_auth}` needs `client_ca`")
        if self.client_auth is ClientAuth.NONE and self.client_ca is not None:
            raise ValueError("`client_ca` needs `client_auth: required` or `optional`")
        if self.client_crl is not None and self.client_ca is None:
            raise ValueError("`client_crl` needs `client_ca`")


class UpstreamTls(Section, frozen=True, kw_only=True):
    """TLS towards the brokers. The files are read again when they change, and at SIGHUP."""

    ca: Annotated[
        str | None,
        Meta(
            description="PEM file with the authorities that brokers' certificates come from. `null`: those of "
            "the operating system."
        ),
    ] = None
    server_name: Annotated[
        str | None,
        Meta(
            description="Name that every broker's certificate must have. `null`: the host that is connected "
            "to, which is the one in `bootstrap` or in the brokers' Metadata.",
        ),
    ] = None
    verify_hostname: Annotated[
        bool,
        Meta(
            description="Whether the name in the certificate is checked. The certificate itself always is "
            "(Kafka: an empty `ssl.endpoint.identification.algorithm` turns the check off)."
        ),
    ] = True
    certificate: Annotated[
        str | None,
        Meta(description="PEM file with the certificate that the proxy shows to brokers, and its chain."),
    ] = None
    key: Annotated[
        str | None,
        Meta(description="PEM file with the certificate's private key; needed with `certificate`."),
    ] = None
    key_password_file: Annotated[
        str | None, Meta(description="File with the password of the key; `null` if it is not encrypted.")
    ] = None
    clients_share_identity: Annotated[
        bool,
        Meta(
            description="Must be `true` with `certificate`: brokers that take the principal from the "
            "certificate (listeners without SASL) see all clients as one principal, that of the proxy, with "
            "all its permissions."
        ),
    ] = False
    min_version: _MinVersion = TlsVersion.TLS_1_2

    def __post_init__(self) -> None:
        """Check that ``certificate`` and ``key`` are set together, and that the shared identity is acknowledged."""
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` belong together")
        if self.certificate is not None and not self.clients_share_identity:
            raise ValueError(
                "with `certificate` every client of the proxy may appear to the brokers as the one principal "
                "of that certificate, with all its permissions; say `clients_share_identity: true` if that is "
                "meant (docs/explanation/security.md)"
            )
        if self.server_name is not None:
            if not self.verify_hostname:
                raise ValueError("`server_name` is checked only with `verify_hostname: true`")
            check_host("server_name", self.server_name)


_PATHS = ("ca", "client_ca", "client_crl", "certificate", "key", "key_password_file")
_Tls = TypeVar("_Tls", ListenerTls, UpstreamTls)


def with_absolute_paths(tls: _Tls, folder: Path) -> _Tls:
    """Return the section with its paths, which are relative to this folder, resolved."""
    named = {key: getattr(tls, key, None) for key in _PATHS}
    return replace(tls, **{key: str(folder / path) for key, path in named.items() if path is not None})


def tls_files_of(tls: ListenerTls | UpstreamTls) -> dict[str, Path]:
    """Return all files that the section names, by their keys."""
    named = {key: getattr(tls, key, None) for key in _PATHS}
    return {key: Path(path) for key, path in named.items() if path is not None}
