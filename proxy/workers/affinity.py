"""Which worker serves a client, by rendezvous hashing of its address and its client id.

All connections of a member have to reach the worker that knows it: any other takes the member over, which costs a
rejoin. They have the same client id in every library, so clients that share an address (behind a NAT or a load
balancer) need not share a worker. The client id is in the first request (:mod:`proxy.transport.first_requests`).
The address alone counts if that request is not there in time, or is encrypted (TLS), or if
``limits.max_connections_per_address`` is set, which each worker counts by itself.

Every worker gets a score for the client, and the highest score wins. This needs no shared table, and when the number
of workers changes at a restart, only the clients of the added or removed workers move.
"""

from hashlib import blake2b


def worker_of(client_host: str, workers: int, client_id: str = "") -> int:
    """Return the number of the worker, from 0, that serves this client."""
    client = f"{client_host} {client_id}" if client_id else client_host
    return max(range(workers), key=lambda number: _score(client, number))


def _score(client: str, number: int) -> bytes:
    return blake2b(f"{number} {client}".encode(errors="replace"), digest_size=8).digest()
