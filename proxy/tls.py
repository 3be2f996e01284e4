"""What the files of a TLS configuration hold, read now and again when they change.

A certificate that can't be used is refused with its file and the reason, and the one before stays: connections
go on with what they have, new ones take what holds when they are opened.
"""

import datetime as dt
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog
from cryptography import x509

from proxy.metrics import Metrics
from proxy.streams import TcpStream, open_tcp
from proxy.tls_config import ClientAuth, ListenerTls, TlsVersion, UpstreamTls, files_of
from proxy.tls_stream import TlsStream

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.tls")

_VERSIONS = {TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class TlsFilesError(Exception):
    """A file of the TLS configuration can't be used; the message names it and says why."""


class Material(msgspec.Struct, frozen=True):
    """What the files gave. ``expires`` is when the own certificate ends (seconds since 1970), None without one."""

    context: ssl.SSLContext
    expires: float | None


def listener_material(tls: ListenerTls) -> Material:
    """What a listener shows to its clients and asks of them.

    :raises TlsFilesError: a file can't be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    expires = _load_chain(context, tls.certificate, tls.key, tls.key_password_file)
    if tls.client_ca is not None:
        _load_authorities(context, tls.client_ca)
    context.verify_mode = _VERIFY[tls.client_auth]
    return Material(context, expires)


def upstream_material(tls: UpstreamTls) -> Material:
    """What the proxy asks of brokers and shows to them.

    :raises TlsFilesError: a file can't be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.check_hostname = tls.verify_hostname
    if tls.ca is not None:
        _load_authorities(context, tls.ca)
    else:
        context.load_default_certs()
    expires = None
    if tls.certificate is not None and tls.key is not None:
        expires = _load_chain(context, tls.certificate, tls.key, tls.key_password_file)
    return Material(context, expires)


def _load_chain(context: ssl.SSLContext, certificate: str, key: str, password_file: str | None) -> float:
    """Load a certificate and its key; when the certificate ends."""
    expires = _valid_until(certificate)
    _read(key)
    password = "" if password_file is None else _read(password_file).decode(errors="replace").strip()
    try:
        context.load_cert_chain(certificate, key, password=password)
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        if reason == "KEY_VALUES_MISMATCH":
            raise TlsFilesError(f"{key}: is not the key of the certificate in {certificate}") from None
        secret = (
            "is it encrypted? " if password_file is None else f"is the password in {password_file} right? "
        )
        raise TlsFilesError(
            f"{key}: not the private key of a certificate in PEM form; {secret}({reason})"
        ) from None
    except (
        OSError,
        ValueError,
    ) as error:  # a file that went away just now, a password longer than OpenSSL takes
        raise TlsFilesError(f"{key}: can't be used: {error}") from None
    return expires


def _valid_until(file: str) -> float:
    """When the first certificate of the file ends; it must be valid now."""
    try:
        own = x509.load_pem_x509_certificates(_read(file))[0]
    except (ValueError, IndexError):
        raise TlsFilesError(f"{file}: has no certificate in PEM form") from None
    now = dt.datetime.now(dt.UTC)
    if now > own.not_valid_after_utc:
        raise TlsFilesError(f"{file}: the certificate ended at {own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
    if now < own.not_valid_before_utc:
        raise TlsFilesError(
            f"{file}: the certificate is valid from {own.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on"
        )
    return own.not_valid_after_utc.timestamp()


def _load_authorities(context: ssl.SSLContext, file: str) -> None:
    _read(file)
    try:
        context.load_verify_locations(file)
    except ssl.SSLError:
        raise TlsFilesError(f"{file}: has no certificate of an authority in PEM form") from None
    except OSError as error:  # it went away just now
        raise TlsFilesError(f"{file}: can't be read: {error.strerror}") from None


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise TlsFilesError(f"{file}: can't be read: {error.strerror}") from None


class Certificates:
    """The TLS of one listener, or of the upstream side: what holds now. ``where`` names it in log and metrics.

    :raises TlsFilesError: it can't be used at all.
    """

    def __init__(
        self, where: str, files: tuple[Path, ...], make: Callable[[], Material], metrics: Metrics
    ) -> None:
        self.files = files
        self._where = where
        self._make = make
        self._metrics = metrics
        self._hold(make())

    @classmethod
    def of_listener(cls, where: str, tls: ListenerTls, metrics: Metrics) -> "Certificates":
        """Those of a listener."""
        return cls(where, files_of(tls), lambda: listener_material(tls), metrics)

    @classmethod
    def of_upstream(cls, tls: UpstreamTls, metrics: Metrics) -> "Certificates":
        """Those of the upstream side."""
        return cls("upstream", files_of(tls), lambda: upstream_material(tls), metrics)

    def guard(self, client: TcpStream) -> TlsStream:
        """The connection of a client, behind TLS as it is now; the handshake is still to be made."""
        return TlsStream(client, self.context, server_side=True)

    def reload(self, why: str) -> None:
        """Read the files again; what they hold is for the connections that are opened from now on."""
        try:
            material = self._make()
        except TlsFilesError as error:
            self._metrics.tls_reloads.labels(self._where, "refused").inc()
            self._metrics.tls_is_current.labels(self._where).set(0)
            _log.error(
                "certificates refused, those before stay", where=self._where, why=why, reason=str(error)
            )
            return
        self._hold(material)
        self._metrics.tls_reloads.labels(self._where, "applied").inc()
        _log.info("certificates applied", where=self._where, why=why)

    def _hold(self, material: Material) -> None:
        self.context = material.context
        self._metrics.tls_is_current.labels(self._where).set(1)
        if material.expires is not None:
            self._metrics.tls_expires.labels(self._where).set(material.expires)


class TlsOpener:
    """Connects to brokers by TLS."""

    def __init__(self, tls: UpstreamTls, certificates: Certificates) -> None:
        self._server_name = tls.server_name
        self._certificates = certificates

    async def open(self, host: str, port: int) -> TlsStream:
        """Connect and shake hands.

        :raises OSError: nobody took the connection.
        :raises TlsError: the handshake failed, or the broker's certificate is refused.
        """
        transport = await open_tcp(host, port)
        try:
            stream = TlsStream(
                transport,
                self._certificates.context,
                server_side=False,
                server_name=self._server_name or host,
            )
            await stream.handshake()
        except BaseException:
            transport.socket.close()
            raise
        return stream


def check_files(listeners: tuple[ListenerTls | None, ...], upstream: UpstreamTls | None) -> None:
    """See whether all files can be used.

    :raises TlsFilesError: the first that can't.
    """
    for tls in listeners:
        if tls is not None:
            listener_material(tls)
    if upstream is not None:
        upstream_material(upstream)
