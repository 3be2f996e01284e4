"""Finds loopback ports that stay free for a server that is stopped and started again on the same port."""

import os
import random
import socket
from collections import deque
from pathlib import Path

LOOPBACK = "127.0.0.1"
_LOWEST = 20_000
_SLICES = 4
"""Each of so many processes that run tests side by side chooses from ports of its own."""
_given: deque[int] = deque(maxlen=500)
"""Ports that this process was given last: their servers may not have started yet."""


def free_ports(count: int) -> list[int]:
    """Return `count` ports on which nothing listens.

    They lie below the range of ephemeral ports, so no outgoing connection can take one while its server is down.
    """
    found: list[int] = []
    for port in random.sample(_range(), 2_000):  # not for secrets
        if port not in _given and is_free(port):
            found.append(port)
            if len(found) == count:
                _given.extend(found)
                return found
    raise OSError(f"no {count} free ports on {LOOPBACK}")


def free_port_block(size: int) -> int:
    """Return the first of `size` ports in a row on which nothing listens, under the same rules as `free_ports`."""
    for first in random.sample(_range(), 2_000):  # not for secrets
        block = range(first, first + size)
        if not any(port in _given for port in block) and all(map(is_free, block)):
            _given.extend(block)
            return first
    raise OSError(f"no {size} free ports in a row on {LOOPBACK}")


def _range() -> range:
    """The ports to choose from. pytest-xdist calls its workers gw0, gw1 and so on."""
    highest = _lowest_ephemeral()
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if not worker.isdecimal():
        return range(_LOWEST, highest)
    size = (highest - _LOWEST) // _SLICES
    first = _LOWEST + int(worker) % _SLICES * size
    return range(first, first + size)


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now."""
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _lowest_ephemeral() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768
