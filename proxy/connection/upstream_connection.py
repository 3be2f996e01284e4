"""The broker's side of one client connection: reads responses until the broker closes."""

import trio

from proxy.connection.disconnect_cause import DisconnectCause
from proxy.connection.session_shell import SessionShell
from proxy.metrics.registry import Metrics
from proxy.session.errors import UpstreamError
from proxy.session.responses import Responses
from proxy.transport.dialer import Dialed
from proxy.transport.relay_direction import RelayDirection
from proxy.transport.tls_errors import TlsError
from proxy.transport.write_buffer import HIGH_WATER, WriteBuffer


class UpstreamConnection:
    """An open connection to a broker. ``port`` labels it in metrics, ``nursery`` runs what writes to it."""

    def __init__(
        self,
        dialed: Dialed,
        port: str,
        shell: SessionShell,
        responses: Responses,
        metrics: Metrics,
        nursery: trio.Nursery,
    ) -> None:
        self.dialed = dialed
        self.ended = trio.Event()
        """Set when nothing more comes from the broker."""
        self.buffer = WriteBuffer(dialed.stream, nursery)
        """Writes to the broker."""
        self.direction = RelayDirection(
            dialed.stream,
            shell.take_from_upstream,
            responses.passthrough_bytes,
            responses.trailing_bytes,
            shell.spliced_to_client,
            metrics.upstream_reads_paused,
        )
        """Reads from the broker."""
        self._shell = shell
        self._metrics = metrics
        self._active = metrics.upstream_connections_active.labels(port)
        self._active.inc()

    async def read(self) -> tuple[DisconnectCause, str]:
        """Read until the broker closes, or something that it sent ends the connection; returns the cause and why."""
        direction, to_client = self.direction, self._shell.to_client
        try:
            while not direction.ended:
                if direction.progress is None and to_client.size > HIGH_WATER:
                    await to_client.drained(self._metrics.upstream_reads_paused)
                await direction.run()
        except (TlsError, UpstreamError) as error:
            self._metrics.upstream_errors.labels(error.kind).inc()
            return DisconnectCause.SERVER_ERROR, str(error)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.ended.set()
        return DisconnectCause.SERVER_CLOSED, ""

    async def close(self) -> None:
        """Close the socket at once."""
        self._active.dec()
        await trio.aclose_forcefully(self.dialed.stream)
