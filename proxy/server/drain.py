"""What closes when at SIGTERM (``drain.grace_s``): no new clients; each connection once its requests are answered, or
its share session has no records locked.

:meth:`proxy.server.server.Server.stop_at_signals` starts it at the first SIGTERM or SIGINT. ``drain.grace_s`` is its
bound: connections that still have requests in flight then are cut. With several processes the supervisor drains its
workers (:mod:`proxy.workers.supervisor`), each of which drains as here.
"""

import structlog
import trio

from proxy.admin.admin_http import Health
from proxy.connection.connection_manager import ConnectionManager
from proxy.connection.disconnect_cause import DisconnectCause
from proxy.server.served_listeners import ServedListeners

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.server.drain")

_CLOSED_PER_S = 200.0
"""The pace of closing: clients reconnect at once, and another process has to take them."""

_PART_FOR_CLOSING = 0.5
"""The pace is raised if closing all connections would take more than this part of the grace period."""

_PART_FOR_LOCKS = 0.8
"""For this part of the grace period a share consumer may acknowledge the records that are locked for it."""


async def drain(
    health: Health, listeners: ServedListeners, connections: ConnectionManager, grace_s: float
) -> None:
    """Report not ready, accept no more clients, and close all connections within ``grace_s`` seconds."""
    health.not_ready("draining")
    listeners.close()
    await close_connections(connections, grace_s)
    _log.info("drained")


async def close_connections(connections: ConnectionManager, grace_s: float) -> None:
    """Close all connections within ``grace_s`` seconds, each once its requests in flight are answered.

    The closing is spread over time (:data:`_CLOSED_PER_S`). A connection with a share session goes on taking requests
    until no records are locked in it, or most of the time is over: closing it would have them delivered again.
    """
    if not len(connections):
        return
    with trio.move_on_after(grace_s) as grace:
        pause_s = min(1 / _CLOSED_PER_S, grace_s * _PART_FOR_CLOSING / len(connections))
        with trio.move_on_after(grace_s * _PART_FOR_LOCKS):
            for connection in connections:
                if connection.has_share_session:
                    connection.close_when_quiescent(DisconnectCause.DRAIN)
                else:
                    connection.close_when_idle(DisconnectCause.DRAIN)
                await trio.sleep(pause_s)
            await connections.wait_until_none()
        for connection in connections:
            connection.close_when_idle(DisconnectCause.DRAIN)
        await connections.wait_until_none()
    if grace.cancelled_caught:
        _log.warning("closing connections with requests in flight", connections=len(connections))
