"""Divides the file descriptors that the system grants this process among clients, brokers and pipes, which bounds
``limits.max_connections``.

A process without free descriptors can neither accept a client nor connect to a broker, and clients decide how many
connections there are. So each use has a limit, and the limits together stay below the process's own.
"""

import errno
import resource

import structlog

from proxy.config.schema import Limits

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.runtime.fd_limits")

OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""Errors that say nothing about the peer: this process, or its machine, has run out of descriptors or memory."""

_RESERVED = 128
"""For everything that is neither a port, nor a pipe, nor a client: files, the admin port, the journal's connections."""

_MAX_PIPES = 256
_DESCRIPTORS_PER_PIPE = 16
"""One pipe for this many descriptors. A pipe takes two, so pipes never take more than an eighth."""

_MAX_HEADERS = 1024
_DESCRIPTORS_PER_HEADER = 16


def raise_file_limit() -> None:
    """Raise the soft limit on descriptors to the hard one. Each client takes two: its own and one to a broker."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def pipe_limit() -> int:
    """Return how many pipes may be open for splicing. Bodies that find no pipe are copied through user space."""
    return min(_MAX_PIPES, _descriptors() // _DESCRIPTORS_PER_PIPE)


def header_limit() -> int:
    """Return how many connections of one listener may wait for their PROXY header."""
    return max(1, min(_MAX_HEADERS, _descriptors() // _DESCRIPTORS_PER_HEADER))


def connection_limit(limits: Limits, ports: int = 0) -> int:
    """Return how many client connections to accept beside ``ports`` listening sockets and the like.

    It is ``limits.max_connections``, or what the descriptors allow at two for each connection.
    """
    descriptors = _descriptors()
    possible = max(1, (descriptors - _RESERVED - ports - 2 * pipe_limit()) // 2)
    # The configuration asks for more than fit.
    if possible < limits.max_connections < Limits().max_connections:
        _log.warning("connections are limited by descriptors", descriptors=descriptors, connections=possible)
    return min(limits.max_connections, possible)


def _descriptors() -> int:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft
