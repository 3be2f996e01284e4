"""Which worker serves a client: always the same one for the same address (rendezvous hashing).

Every worker gets a score for the address, and the highest wins. That needs no table and no order of arrival, and if
the number of workers changes at a restart, only the clients of a worker that is new or gone move.
"""

from functools import lru_cache
from hashlib import blake2b

_REMEMBERED = 65_536


@lru_cache(maxsize=_REMEMBERED)
def worker_of(client_host: str, workers: int) -> int:
    """The number of the worker, from 0, that serves this client address."""
    return max(range(workers), key=lambda number: _score(client_host, number))


def _score(client_host: str, number: int) -> bytes:
    return blake2b(f"{number} {client_host}".encode(), digest_size=8).digest()
