"""TLS over a :class:`proxy.transport.tcp_stream.TcpStream`, with the interface that the relay uses on plain TCP;
names a peer that speaks no TLS.

``trio.SSLStream`` returns one TLS record at a time, can't write without waiting, and can't half-close while it still
reads. The relay needs all three, so this module drives OpenSSL's record layer itself (``ssl.SSLObject``);
``benchmarks/tls_streams.py`` compares both. Memory is bounded: at most
:data:`proxy.transport.tcp_stream.RECEIVE_SIZE` bytes of one read, and what one write passes to OpenSSL.
"""

import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import trio

from proxy.transport.tcp_stream import RECEIVE_SIZE, Take, TcpStream
from proxy.transport.tls_errors import TlsError
from proxy.wire.frame_splitter import HTTP_STARTS, PROXY_STARTS

_RECORD = 16 * 1024
_WRITE = 64 * 1024
"""Bytes that are encrypted at once: four records, so that a peer that does not read costs little memory."""

_HANDSHAKE_RECORD = 0x16
_ALERT_RECORD = 0x15
_LOWEST_RECORD = 0x14
"""The lowest first byte of a TLS record. A Kafka frame begins with a lower one, its size's highest, up to 335 MB."""


Route = Callable[[TcpStream, Callable[[bytes], bool]], Awaitable[int | None]]
"""Returns the node that the peer names, as :meth:`proxy.transport.server_names.ServerNames.route` does."""


class TlsStream(trio.abc.HalfCloseableStream):
    """One side of a TLS connection; call :meth:`handshake` first.

    ``server_name`` is the name that the peer's certificate must have; None on the listening side, and where
    the context does not check names. ``may_resume`` decides by the certificate of a session that the peer resumes,
    which OpenSSL does not verify again. ``route`` selects the node by the ClientHello, before OpenSSL answers
    it; ``node_id`` is that node after the handshake.
    """

    def __init__(
        self,
        transport: TcpStream,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_name: str | None = None,
        may_resume: Callable[[bytes], bool] | None = None,
        route: Route | None = None,
    ) -> None:
        self.transport = transport
        self.node_id: int | None = None
        self._route = route
        self._server_side = server_side
        self._may_resume = may_resume
        self._from_peer = ssl.MemoryBIO()
        self._to_peer = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(
            self._from_peer, self._to_peer, server_side=server_side, server_hostname=server_name
        )
        self._rest = b""  # ciphertext that the kernel has not taken yet
        self._ahead = 0  # plaintext of the next send that is encrypted already
        self._sending = trio.Lock()
        self._seen_first = False
        self._sent_eof = False
        self._received_close = False  # a close_notify alert, or the end of the TCP stream
        self._torn = False  # a record may have been written in part: nothing can follow it

    @property
    def version(self) -> str:
        """The negotiated version of TLS, such as ``TLSv1.3``."""
        return self._ssl.version() or "none"

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate (DER), if it has shown one."""
        return self._ssl.getpeercert(binary_form=True)

    # -- the handshake -------------------------------------------------------------------------------------

    async def handshake(self) -> None:
        """Shake hands with the peer.

        :raises TlsError: one of the sides refuses, or the peer does not speak TLS.
        :raises trio.BrokenResourceError: the connection broke.
        """
        if self._route is not None:
            self.node_id = await self._route(self.transport, self._take_in)
        while True:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._fill():
                    raise self._gone() from None
            except ssl.SSLError as error:
                with suppress(trio.BrokenResourceError):
                    await self._flush()  # the alert that tells the peer
                raise TlsError("tls_handshake", f"the TLS handshake failed: {reason_of(error)}") from None
            else:
                if self._is_stale():
                    raise TlsError(
                        "tls_handshake",
                        "the peer resumes a TLS session, and the revocation list of its authority is out of date",
                    )
                await self._flush()
                return

    def _is_stale(self) -> bool:
        if self._may_resume is None or not self._ssl.session_reused:
            return False
        certificate = self.peer_certificate
        return certificate is not None and not self._may_resume(certificate)

    def _gone(self) -> TlsError:
        if self._server_side:
            return TlsError("tls_handshake", "the peer closed the connection in the TLS handshake")
        return TlsError(
            "tls_handshake",
            "the peer closed the connection in the TLS handshake; it may be a plaintext port (PLAINTEXT or "
            "SASL_PLAINTEXT)",
        )

    def _check_first(self, data: bytes) -> None:
        """Raise TlsError if the peer's first bytes are not TLS, and name what they look like."""
        self._seen_first = True
        if data[0] in (_HANDSHAKE_RECORD, _ALERT_RECORD):
            return
        if data[:4] in HTTP_STARTS:
            raise TlsError("http", f"HTTP without TLS on a Kafka port with TLS (it begins with {data[:4]!r})")
        if data[:4] in PROXY_STARTS:
            raise TlsError(
                "proxy_header", "a PROXY header from an address that is not in `proxy_protocol.trusted`"
            )
        if data[0] < _LOWEST_RECORD:
            raise TlsError(
                "plaintext",
                "plaintext Kafka on a TLS port: the peer is set up for PLAINTEXT or SASL_PLAINTEXT",
            )
        raise TlsError("tls_handshake", f"no TLS on a TLS port (it begins with {data[:4]!r})")

    # -- reading -------------------------------------------------------------------------------------------

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes and return them; empty at the end of the stream.

        :raises TlsError: the peer sent something that is not TLS.
        :raises trio.BrokenResourceError: the connection broke.
        """
        most = max_bytes or RECEIVE_SIZE
        waited = False
        while not self._sent_eof:
            data, ended = self._decrypted(most)
            if self._to_peer.pending and not self._sending.locked():
                await self._flush()  # a response of TLS itself, such as to a key update
            self._received_close |= ended
            if data or ended:
                if not waited:  # a wait lets other tasks run anyway
                    await trio.lowlevel.checkpoint()
                return data
            await self._fill()
            waited = True
        while await self.transport.receive_some():
            pass  # after send_eof only the peer's own end is of interest
        return b""

    async def feed(self, take: Take) -> None:
        """Give ``take`` what arrives until it returns False; may return earlier. Raises as :meth:`receive_some`."""
        if self._to_peer.pending and not self._sending.locked():
            await self._flush()  # a response of TLS itself, such as to a key update
        if self._sent_eof or self._hand_over(take):
            await self.transport.on_readable(partial(self._on_ready, take))

    def _on_ready(self, take: Take) -> bool:
        """Take what can be read now; return whether to wait for more of it and for nothing else."""
        if self._sent_eof:  # only the peer's own end is of interest
            return self.transport.hand_over(lambda data: bool(data) or take(b""))
        self.transport.hand_over(self._take_in)
        return self._hand_over(take) and not self._to_peer.pending

    def _hand_over(self, take: Take) -> bool:
        """Give ``take`` what is decrypted; return whether it wants more."""
        while True:
            data, ended = self._decrypted(RECEIVE_SIZE)
            self._received_close |= ended
            if data and not take(data):
                return False
            if ended:
                return take(b"")
            if not data:
                return True

    def _decrypted(self, most: int) -> tuple[bytes, bool]:
        """Return what can be decrypted now, and whether the stream ends after it."""
        records: list[bytes] = []
        size = 0
        ended = False
        try:
            while size < most and self._may_decrypt():
                record = self._ssl.read(min(_RECORD, most - size))
                if not record:
                    ended = True
                    break
                records.append(record)
                size += len(record)
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            ended = True  # also without a close_notify: a Kafka frame shows by its size whether it is whole
        except ssl.SSLError as error:
            if not records:
                raise TlsError("tls_record", f"TLS: {reason_of(error)}") from error
        return records[0] if len(records) == 1 else b"".join(records), ended

    def _may_decrypt(self) -> bool:
        """Whether OpenSSL has something to read. If not, it raises, which takes as long as a small record."""
        return bool(
            self._from_peer.pending or self._ssl.pending() or self._from_peer.eof or self._received_close
        )

    async def _fill(self) -> bool:
        """Wait for ciphertext; return whether any came before the end."""
        return self._take_in(await self.transport.receive_some(RECEIVE_SIZE))

    def _take_in(self, data: bytes) -> bool:
        if not data:
            self._from_peer.write_eof()
            return False
        if not self._seen_first and self._server_side:
            self._check_first(data)
        self._from_peer.write(data)
        return True

    def peer_closed(self) -> bool:
        """Whether the peer has closed: its side of the TCP connection, as the kernel knows, or TLS alone.

        A close_notify without the end of the TCP connection counts once it is read, behind what was sent before it.
        """
        return self._received_close or self.transport.peer_closed()

    # -- writing -------------------------------------------------------------------------------------------

    def send_nowait(self, data: bytes) -> int:
        """Write what the kernel takes now, and return how many bytes that was.

        The caller has to write the remaining bytes next, as with OpenSSL itself: some may be encrypted already.

        :raises trio.BrokenResourceError: the peer is gone.
        """
        if self._sending.locked():
            return 0
        with memoryview(data) as view:
            while self._ahead < len(view) and self._drain():
                part = view[self._ahead : self._ahead + _WRITE]
                self._encrypt(part)
                self._ahead += len(part)
        if self._ahead < len(data) or not self._drain():
            # Some ciphertext still waits for the kernel: at least one byte stays unsent, so that the caller comes back.
            done = min(self._ahead, len(data) - 1)
            self._ahead -= done
            return done
        self._ahead = 0
        return len(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write everything, and wait for the peer as long as needed.

        :raises trio.BrokenResourceError: the peer is gone.
        """
        async with self._sending:
            with memoryview(data) as view:
                at, self._ahead = self._ahead, 0
                await self._push()
                while at < len(view):
                    part = view[at : at + _WRITE]
                    self._encrypt(part)
                    at += len(part)
                    await self._push()

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the kernel takes bytes again."""
        await self.transport.wait_send_all_might_not_block()

    def _encrypt(self, data: memoryview) -> None:
        try:
            self._ssl.write(data)
        except ssl.SSLError as error:
            raise TlsError("tls_record", f"TLS: {reason_of(error)}") from error

    def _drain(self) -> bool:
        """Give the kernel what is encrypted; return whether it took everything."""
        if self._to_peer.pending:
            self._rest += self._to_peer.read()
        if self._rest:
            self._rest = self._rest[self.transport.send_nowait(self._rest) :]
        return not self._rest

    async def _push(self) -> None:
        """Write what is encrypted. The caller holds the lock."""
        self._rest += self._to_peer.read()
        if self._rest:
            rest, self._rest = self._rest, b""
            self._torn = True
            await self.transport.send_all(rest)
            self._torn = False

    async def _flush(self) -> None:
        async with self._sending:
            await self._push()

    # -- the end -------------------------------------------------------------------------------------------

    async def send_eof(self) -> None:
        """Half-close: tell the peer that nothing more comes. What it still sends is read and dropped.

        :raises trio.BrokenResourceError: the peer is gone.
        """
        self._sent_eof = True
        with suppress(ssl.SSLError):  # the peer has not sent its close_notify yet, or already has
            self._ssl.unwrap()
        await self._flush()
        await self.transport.send_eof()

    async def aclose(self) -> None:
        """Close the connection, with a close_notify if the kernel takes it at once."""
        if not self._sent_eof and not self._torn and not self._sending.locked():
            with suppress(ssl.SSLError, trio.BrokenResourceError, trio.ClosedResourceError):
                with suppress(ssl.SSLError):
                    self._ssl.unwrap()
                self._drain()
        await self.transport.aclose()


def reason_of(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason in words for an operator."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is refused: {error.verify_message.rstrip('.')}"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    return _IN_OTHER_WORDS.get(reason, reason)


_IN_OTHER_WORDS = {
    "peer did not return a certificate": "the peer shows no certificate, and `client_auth` is `required`",
    "wrong version number": "the peer does not speak TLS (wrong version number); it may be a plaintext port",
    "tlsv1 alert unknown ca": "the peer refuses our certificate: it does not know the authority (unknown CA)",
    "sslv3 alert bad certificate": "the peer refuses our certificate, or that we show none (bad certificate)",
    "sslv3 alert certificate unknown": "the peer refuses our certificate (certificate unknown)",
    "tlsv13 alert certificate required": "the peer requires a client certificate",
}
