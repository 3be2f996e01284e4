"""Closes one side of a connection so that the peer gets everything that was written."""

import trio

from proxy.transport.write_buffer import WriteBuffer

FLUSH_TIMEOUT_S = 5.0
"""Seconds that a peer has to take what is still to be written when its connection ends."""


async def close_gracefully(
    buffer: WriteBuffer, stream: trio.abc.Stream, peer_ended: trio.Event | None = None
) -> None:
    """Write what waits, say that nothing more comes, and wait for the peer to close: :data:`FLUSH_TIMEOUT_S` at most.

    ``buffer`` is that of the stream. ``peer_ended`` is set when the peer has closed, by whoever reads the stream;
    without it nobody does, and what still comes is dropped here.
    """
    with trio.move_on_after(FLUSH_TIMEOUT_S):
        await buffer.flushed()
        await _half_close(stream, peer_ended)


async def _half_close(stream: trio.abc.Stream, peer_ended: trio.Event | None) -> None:
    """Send the end of the stream and wait for the peer's.

    Closing at once, with bytes of the peer unread, would reset the connection and could destroy what was written last.
    """
    if not isinstance(stream, trio.abc.HalfCloseableStream):
        return
    try:
        await stream.send_eof()
        if peer_ended is not None:
            await peer_ended.wait()
        else:
            while await stream.receive_some():
                pass
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
