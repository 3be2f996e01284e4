"""Names that every library of this machine resolves: lines in /etc/hosts, for as long as a test runs."""

import contextlib
import fcntl
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.skips import not_here
from tools.kafka.ports import LOOPBACK

_HOSTS = Path("/etc/hosts")


@contextlib.contextmanager
def resolved(*names: str, address: str = LOOPBACK) -> Iterator[None]:
    """Have these names resolve to an address; a test of a user who may not change that is skipped."""
    if not os.access(_HOSTS, os.W_OK):
        not_here(f"only root may add names to {_HOSTS}")
    mark = f"# epochgate test {uuid.uuid4().hex}"
    with Path(tempfile.gettempdir(), f"epochgate-{names[0]}.lock").open("w") as turns:
        fcntl.flock(turns, fcntl.LOCK_EX)  # another process may have the same names, with another address
        with _locked() as lines:
            lines.append(f"{address} {' '.join(names)} {mark}\n")
        try:
            yield
        finally:
            with _locked() as lines:
                lines[:] = [line for line in lines if mark not in line]


@contextlib.contextmanager
def _locked() -> Iterator[list[str]]:
    """The file's lines, which are written back in place: in a container the file is often a mount of its own."""
    with _HOSTS.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = file.readlines()
        lines = [line if line.endswith("\n") else f"{line}\n" for line in before]
        yield lines
        file.seek(0)
        file.writelines(lines)
        file.truncate()
