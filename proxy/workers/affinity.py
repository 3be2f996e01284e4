"""Which worker serves a client: assigns each client address to one, by rendezvous hashing.

Every worker gets a score for the address, and the highest score wins. This needs no shared table, and when the number
of workers changes at a restart, only the clients of the added or removed workers move.
"""

from functools import lru_cache
from hashlib import blake2b

_CACHE_SIZE = 65_536


@lru_cache(maxsize=_CACHE_SIZE)
def worker_of(client_host: str, workers: int) -> int:
    """Return the number of the worker, from 0, that serves this client address."""
    return max(range(workers), key=lambda number: _score(client_host, number))


def _score(client_host: str, number: int) -> bytes:
    return blake2b(f"{number} {client_host}".encode(), digest_size=8).digest()
