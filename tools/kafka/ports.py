"""Finds loopback ports that stay free for a server that is stopped and started again on the same port."""

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
_LOWEST = 20_000


def free_ports(count: int) -> list[int]:
    """Return `count` ports on which nothing listens.

    They lie below the range of ephemeral ports, so no outgoing connection can take one while its server is down.
    """
    found: list[int] = []
    for port in random.sample(range(_LOWEST, _lowest_ephemeral()), 2_000):  # not for secrets
        if is_free(port):
            found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"no {count} free ports on {LOOPBACK}")


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
