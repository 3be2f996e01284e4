"""What a connection has done so far, for the timeouts of :mod:`proxy.connection.connection_manager`."""

import msgspec


class ConnectionProgress(msgspec.Struct, frozen=True, gc=False):
    """Counts that only grow, and what the connection waits for now."""

    reads: int
    """Reads from either side, without those that the proxy's own authentication caused."""
    writes: int
    """Pieces that the client did not take at once, and has taken since."""
    requests: int
    """Requests that have begun."""
    client_owes_rest: bool
    """Whether the client has begun a request and has not sent the rest, although the proxy would read it."""
    request_size: int
    """The size of that request in bytes, as far as it is known."""
    client_owes_reading: bool
    """Whether bytes wait that the client does not read."""
    quiescent: bool
    """Whether nothing is under way."""
