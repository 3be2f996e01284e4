"""To whom a process opens connections, as the kernel sees it: every connect() of the process and its threads.

strace reports each system call, so a connection can't be missed, however short it is and whoever made it.
"""

import re
import shutil
from dataclasses import replace
from pathlib import Path

from support.clients import ClientKind
from tests.skips import Need, without

_CONNECT = re.compile(
    r'connect\(\d+, \{sa_family=AF_INET, sin_port=htons\((\d+)\), sin_addr=inet_addr\("([^"]+)"\)'
)
_CONNECT_6 = re.compile(r"connect\(\d+, \{sa_family=AF_INET6, sin6_port=htons\((\d+)\)")


def needs_strace() -> None:
    """Skip where there is no strace; in CI, where there must be one, fail."""
    if shutil.which("strace") is None:
        without(Need.KAFKA, "strace is not installed")


def traced(kind: ClientKind) -> ClientKind:
    """The same client, with its connections written down beside its log (see `ports_of`)."""

    def command(log: Path) -> list[str]:
        return [*strace(trace_file(log)), *kind.command(log)]

    return replace(kind, command=command)


def strace(to: Path) -> list[str]:
    """What stands before a command."""
    return ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=connect", "-e", "signal=none", "-o", str(to)]


def trace_file(log: Path) -> Path:
    """Where the connections are written down."""
    return log.with_suffix(".connects")


def ports_of(traces: list[Path]) -> dict[int, int]:
    """{port: connections} that these processes opened or tried, on any address."""
    found: dict[int, int] = {}
    for trace in traces:
        text = trace.read_text()
        for pattern in (_CONNECT, _CONNECT_6):
            for match in pattern.finditer(text):
                port = int(match[1])
                found[port] = found.get(port, 0) + 1
    return found
