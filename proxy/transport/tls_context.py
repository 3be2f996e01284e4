"""Makes TLS contexts from the configured files: certificates, keys, and whether a client has to show a certificate
(``client_auth``). What happens when a renewed file can't be used.

:mod:`proxy.runtime.file_watcher` notices when the files change and calls :meth:`Certificates.reload`. If a file can't
be used when it is reloaded, the previous certificate stays in use, and the log names the file and the reason. Open
connections keep the certificate with which they began.
"""

import datetime as dt
import os
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import structlog
from cryptography import x509

from proxy.config.regular_file import read_regular_file
from proxy.config.schema import Address, Config
from proxy.config.tls import ClientAuth, ListenerTls, TlsVersion, UpstreamTls, tls_files_of
from proxy.metrics.registry import Metrics
from proxy.transport.dialer import Open
from proxy.transport.tcp_stream import TcpStream, open_tcp
from proxy.transport.tls_errors import TlsFilesError
from proxy.transport.tls_stream import Route, TlsStream

if TYPE_CHECKING:
    from proxy.transport.revocation import RevocationLists

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.transport.tls_context")

_VERSIONS = {TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class Material(msgspec.Struct, frozen=True):
    """A TLS context made from files. ``expires``: when its certificate ends (seconds since 1970), None without one."""

    context: ssl.SSLContext
    expires: float | None
    revocations: "RevocationLists | None" = None


UPSTREAM = -1
"""The key of the upstream side where listeners are keyed by their numbers."""

Contents = dict[str, bytes]
"""The content of each file, by the path that the configuration gives."""


def read_files(tls: ListenerTls | UpstreamTls) -> Contents:
    """Read all files that a TLS configuration names.

    :raises TlsFilesError: one can't be read.
    """
    return {str(file): _read(str(file)) for file in tls_files_of(tls).values()}


def listener_material(
    tls: ListenerTls,
    contents: Contents | None = None,
    *,
    names: Collection[str] = (),
    before: Material | None = None,
    must_be_valid_now: bool = True,
) -> Material:
    """Make the context of a listener, whose certificate must be for all of these ``names``.

    ``contents`` replace the files. ``before`` is what is in use: its revocation lists stay where the file has none that
    can be used. Unless ``must_be_valid_now``, an expired certificate is accepted too.

    :raises TlsFilesError: a file can't be used.
    """
    contents = read_files(tls) if contents is None else contents
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    expires = _load_chain(
        context,
        contents,
        tls.certificate,
        tls.key,
        tls.key_password_file,
        must_be_valid_now=must_be_valid_now,
    )
    if names:
        from proxy.transport.certificate_names import check_names  # noqa: PLC0415 - most nodes have ports

        check_names(tls.certificate, contents[tls.certificate], names)
    revocations = None
    if tls.client_ca is not None:
        _load_authorities(context, contents, tls.client_ca)
        if tls.client_crl is not None:
            revocations = _load_revocations(
                context,
                contents,
                tls.client_crl,
                before=None if before is None else before.revocations,
                must_be_valid_now=must_be_valid_now,
            )
    context.verify_mode = _VERIFY[tls.client_auth]
    return Material(context, expires, revocations)


def upstream_material(
    tls: UpstreamTls, contents: Contents | None = None, *, must_be_valid_now: bool = True
) -> Material:
    """Make the context for connections to brokers; see :func:`listener_material`.

    :raises TlsFilesError: a file can't be used.
    """
    contents = read_files(tls) if contents is None else contents
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.check_hostname = tls.verify_hostname
    if tls.ca is not None:
        _load_authorities(context, contents, tls.ca)
    else:
        context.load_default_certs()
    expires = None
    if tls.certificate is not None and tls.key is not None:
        expires = _load_chain(
            context,
            contents,
            tls.certificate,
            tls.key,
            tls.key_password_file,
            must_be_valid_now=must_be_valid_now,
        )
    return Material(context, expires)


def material(
    tls: ListenerTls | UpstreamTls,
    contents: Contents | None = None,
    *,
    names: Collection[str] = (),
    before: Material | None = None,
    must_be_valid_now: bool = True,
) -> Material:
    """Make the context of a listener, or of connections to brokers, by the type of ``tls``."""
    if isinstance(tls, ListenerTls):
        return listener_material(
            tls, contents, names=names, before=before, must_be_valid_now=must_be_valid_now
        )
    return upstream_material(tls, contents, must_be_valid_now=must_be_valid_now)


def _load_chain(
    context: ssl.SSLContext,
    contents: Contents,
    certificate: str,
    key: str,
    password_file: str | None,
    *,
    must_be_valid_now: bool,
) -> float:
    """Load a certificate and its key; return when the certificate ends."""
    expires = _valid_until(certificate, contents[certificate], must_be_valid_now=must_be_valid_now)
    password = "" if password_file is None else contents[password_file].decode(errors="replace").strip()
    try:
        with _as_file(contents[certificate]) as certificate_file, _as_file(contents[key]) as key_file:
            context.load_cert_chain(certificate_file, key_file, password=password)
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
    except (OSError, ValueError) as error:  # no descriptors, a password longer than OpenSSL takes
        raise TlsFilesError(f"{key}: can't be used: {error}") from None
    return expires


def _valid_until(file: str, content: bytes, *, must_be_valid_now: bool) -> float:
    """Return when the first certificate of the file ends."""
    try:
        own = x509.load_pem_x509_certificates(content)[0]
    except (ValueError, IndexError):
        raise TlsFilesError(f"{file}: has no certificate in PEM form") from None
    now = dt.datetime.now(dt.UTC)
    if now > own.not_valid_after_utc and must_be_valid_now:
        raise TlsFilesError(f"{file}: the certificate ended at {own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
    if now < own.not_valid_before_utc and must_be_valid_now:
        raise TlsFilesError(
            f"{file}: the certificate is valid from {own.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on"
        )
    return own.not_valid_after_utc.timestamp()


def _load_authorities(context: ssl.SSLContext, contents: Contents, file: str) -> None:
    try:
        with _as_file(contents[file]) as path:
            context.load_verify_locations(path)
    except ssl.SSLError:
        raise TlsFilesError(f"{file}: has no certificate of an authority in PEM form") from None
    except OSError as error:
        raise TlsFilesError(f"{file}: can't be used: {error.strerror}") from None


def _load_revocations(
    context: ssl.SSLContext,
    contents: Contents,
    file: str,
    *,
    before: "RevocationLists | None",
    must_be_valid_now: bool,
) -> "RevocationLists":
    from proxy.transport.revocation import read_lists  # noqa: PLC0415 - most listeners have no list

    authorities = context.get_ca_certs(
        binary_form=True
    )  # as OpenSSL has read them, which takes more forms of PEM
    lists = read_lists(file, contents[file], authorities, before=before, must_be_valid_now=must_be_valid_now)
    try:
        with _as_file(lists.pem) as path:
            lists.check_by(context, path)
    except OSError as error:  # SSLError is one
        raise TlsFilesError(f"{file}: can't be used: {error.strerror}") from None
    return lists


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path under which OpenSSL, which reads files only, finds these bytes; they never reach a disk."""
    with os.fdopen(os.memfd_create("tls", os.MFD_CLOEXEC), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _read(file: str) -> bytes:
    try:
        return read_regular_file(Path(file))
    except OSError as error:
        raise TlsFilesError(f"{file}: can't be read: {error.strerror}") from None


class Certificates:
    """The current TLS context of one listener, or of the upstream side. ``where`` names it in log and metrics.

    The certificate of a listener must be for all of its server ``names``.

    ``last_good`` are the last contents of its files that could be used. They replace files that can't be used now; log
    and metrics report that. ``current`` is what was made of the files already; they are not read then.

    :raises TlsFilesError: a file can't be used, and there are neither ``last_good`` contents nor ``current``.
    """

    def __init__(
        self,
        where: str,
        tls: ListenerTls | UpstreamTls,
        metrics: Metrics,
        last_good: Contents | None = None,
        names: Collection[str] = (),
        current: Material | None = None,
    ) -> None:
        self.files = tuple(tls_files_of(tls).values())
        self.where = where
        self._tls = tls
        self._names = names
        self._metrics = metrics
        try:
            self._hold(current or material(tls, names=names))
        except TlsFilesError:
            if last_good is None:
                raise
            self._hold(material(tls, last_good, must_be_valid_now=False))
            self.reload("the start")

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the connections that are opened now."""
        return self._current.context

    @property
    def may_resume(self) -> Callable[[bytes], bool] | None:
        """Whether a client with this certificate (DER) may resume a session; None if all may."""
        lists = self._current.revocations
        return None if lists is None else lists.are_current_for

    def guard(self, client: TcpStream, route: Route | None = None) -> TlsStream:
        """Wrap a client's connection in TLS with the current certificate; the caller makes the handshake.

        ``route`` is as for :class:`proxy.transport.tls_stream.TlsStream`.
        """
        return TlsStream(client, self.context, server_side=True, may_resume=self.may_resume, route=route)

    def reload(self, why: str) -> None:
        """Read the files again, for the connections that are opened from now on."""
        try:
            current = material(self._tls, names=self._names, before=self._current)
        except TlsFilesError as error:
            self._refuse(why, "certificates refused, those before stay", str(error))
            return
        self._hold(current)
        if current.revocations is not None and current.revocations.refused:
            self._refuse(
                why, "certificates applied, but not all revocation lists", current.revocations.refused
            )
            return
        self._metrics.tls_reloads.labels(self.where, "applied").inc()
        _log.info("certificates applied", where=self.where, why=why)

    def forget(self) -> None:
        """Take its series out of the metrics: nothing is served with it any more."""
        for gauge in (self._metrics.tls_is_current, self._metrics.tls_expires, self._metrics.tls_crl_expires):
            gauge.remove(self.where)
        for result in ("applied", "refused"):
            self._metrics.tls_reloads.remove(self.where, result)

    def _refuse(self, why: str, what: str, reason: str) -> None:
        self._metrics.tls_reloads.labels(self.where, "refused").inc()
        self._metrics.tls_is_current.labels(self.where).set(0)
        _log.error(what, where=self.where, why=why, reason=reason)

    def _hold(self, current: Material) -> None:
        self._current = current
        self._metrics.tls_is_current.labels(self.where).set(1)
        crl_expires = None if current.revocations is None else current.revocations.expires
        for gauge, expires in (
            (self._metrics.tls_expires, current.expires),
            (self._metrics.tls_crl_expires, crl_expires),
        ):
            if expires is None:
                gauge.remove(self.where)
            else:
                gauge.labels(self.where).set(expires)


class TlsOpener:
    """Connects to brokers by TLS."""

    def __init__(self, tls: UpstreamTls, certificates: Certificates | Material) -> None:
        self._server_name = tls.server_name
        self._certificates = certificates

    async def open(self, host: str, port: int) -> TlsStream:
        """Connect and shake hands.

        :raises OSError: no address accepted the connection.
        :raises TlsError: the handshake failed, or the certificate of the broker is refused.
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


class FoundCertificates(NamedTuple):
    """The certificates of one process; ``open_`` connects to brokers. None without TLS there."""

    upstream: Certificates | None
    open_: Open | None
    listeners: list[Certificates | None]


def read_certificates(
    config: Config, metrics: Metrics, last_good: Mapping[int, Contents]
) -> FoundCertificates:
    """Read the files of the upstream side and of each listener.

    :raises TlsFilesError: a certificate can't be used.
    """
    open_: Open | None = None
    upstream: Certificates | None = None
    if (tls := config.upstream.tls) is not None:
        upstream = Certificates("upstream", tls, metrics, last_good.get(UPSTREAM))
        open_ = TlsOpener(tls, upstream).open
    listeners = [
        None
        if one.tls is None
        else Certificates(
            f"listener {Address(one.bind, one.port)}",
            one.tls,
            metrics,
            last_good.get(number),
            one.server_names,
        )
        for number, one in enumerate(config.listeners)
    ]
    return FoundCertificates(upstream, open_, listeners)


def file_problems(tls: ListenerTls | UpstreamTls, names: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return the files of a section that can't be used: the key that names each, and the file with the reason.

    ``names`` are those that the certificate of a listener must be for.
    """
    files = tls_files_of(tls)
    contents: Contents = {}
    found: list[tuple[str, str]] = []
    for key, file in files.items():
        try:
            contents[str(file)] = _read(str(file))
        except TlsFilesError as error:
            found.append((key, str(error)))
    if found:
        return found
    try:
        material(tls, contents, names=names)
    except TlsFilesError as error:
        text = str(error)
        return [
            next(((key, text) for key, file in files.items() if text.startswith(f"{file}: ")), ("", text))
        ]
    return []
