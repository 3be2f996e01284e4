"""Certificates of an authority made for one test, as files; and clients that use them."""

import datetime as dt
import socket
import ssl
from pathlib import Path

import trio
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.transport.tcp_stream import TcpStream
from proxy.transport.tls_stream import TlsStream

LOCAL = "127.0.0.1"


class Authority:
    """Issues certificates into a folder."""

    def __init__(self, folder: Path, name: str = "ca", subject: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._ca = trustme.CA(organization_unit_name=subject)
        self.file = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def issue(self, name: str, *hosts: str, **options) -> tuple[Path, Path]:
        """A certificate with its chain, and its key; for loopback if no other host is named."""
        issued = self._ca.issue_cert(*(hosts or (LOCAL,)), **options)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(key))
        return certificate, key

    def revoke(
        self,
        *certificates: Path,
        name: str = "crl",
        begins: dt.datetime | None = None,
        ends: dt.datetime | None = None,
        has_key_id: bool = True,
    ) -> Path:
        """Write the list of these, which counts until ``ends``, by default for a day."""
        authority = x509.load_pem_x509_certificate(self._ca.cert_pem.bytes())
        key = serialization.load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        now = dt.datetime.now(dt.UTC)
        ends = ends or now + dt.timedelta(days=1)
        listed = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(authority.subject)
            .last_update(begins or min(now, ends) - dt.timedelta(days=1))
            .next_update(ends)
        )
        if has_key_id:
            key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
            listed = listed.add_extension(key_id, critical=False)
        for file in certificates:
            serial = x509.load_pem_x509_certificates(file.read_bytes())[0].serial_number
            one = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
            listed = listed.add_revoked_certificate(one)
        file = self.folder / f"{name}.pem"
        file.write_bytes(listed.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return file

    def listener_tls(self, name: str = "proxy", hosts: tuple[str, ...] = (), **keys) -> ListenerTls:
        certificate, key = self.issue(name, *hosts)
        return ListenerTls(certificate=str(certificate), key=str(key), **keys)

    def upstream_tls(self, **keys) -> UpstreamTls:
        return UpstreamTls(ca=str(self.file), **keys)

    def server_context(self, name: str = "broker", host: str = LOCAL) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(name, host))
        return context

    def client_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.file)
        return context


async def connect_tls(port: int, context: ssl.SSLContext, name: str = LOCAL) -> trio.SSLStream:
    """A client of another make than the proxy: trio's own TLS."""
    stream = trio.SSLStream(await trio.open_tcp_stream(LOCAL, port), context, server_hostname=name)
    try:
        await stream.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


def tls_pair(authority: Authority) -> tuple[TlsStream, TlsStream]:
    """Client and server of one connection, before the handshake."""
    ours, theirs = socket.socketpair()
    client = TlsStream(TcpStream(ours), authority.client_context(), server_side=False, server_name=LOCAL)
    server = TlsStream(TcpStream(theirs), authority.server_context(), server_side=True)
    return client, server
