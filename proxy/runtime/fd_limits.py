"""Descriptors: how many the system gives to this process, and how those for clients and those for pipes share them.

Whoever runs out of them can neither accept a client nor reach a broker, and clients decide how many there are. So each
use has a bound, and all bounds together stay below what there is.
"""

import errno
import resource

import structlog

from proxy.config.schema import Limits

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.runtime.fd_limits")

OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""Errors of system calls that say nothing of the peer: this process, or its machine, has no more."""

_KEPT = 128
"""For all that is neither a port, nor a pipe, nor a connection: files, the admin port, connections of the journal."""

_MOST_PIPES = 256
_PIPES_OF = 16
"""One pipe for so many descriptors: it takes two of them, so pipes never have more than an eighth."""


def raise_file_limit() -> None:
    """Allow as many sockets as the system lets this process have: each client takes two."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most_pipes() -> int:
    """How many pipes may be open; bodies for which there is none are copied."""
    return min(_MOST_PIPES, _descriptors() // _PIPES_OF)


def most_connections(limits: Limits, ports: int = 0) -> int:
    """How many connections this process can take beside so many ports: each may need a descriptor on both sides."""
    descriptors = _descriptors()
    possible = max(1, (descriptors - _KEPT - ports - 2 * most_pipes()) // 2)
    if possible < limits.max_connections < Limits().max_connections:  # somebody wants more than there can be
        _log.warning("connections are limited by descriptors", descriptors=descriptors, connections=possible)
    return min(limits.max_connections, possible)


def _descriptors() -> int:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft
