"""Reads files that the configuration names: regular files of limited size only.

A configured path may lead to anything, by mistake or through a symbolic link in a mounted volume. Reading a device
never ends and opening a FIFO may block, and the thread that reads also serves all connections.
"""

import errno
import os
import stat
from pathlib import Path

MAX_BYTES = 4 * 1024 * 1024
"""Default size limit in bytes; certificate bundles have a few hundred thousand."""


def read_regular_file(file: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the contents of a file; symbolic links are followed.

    :raises OSError: it can't be read, is not a regular file, or is larger than ``max_bytes`` bytes.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(file))
        content = opened.read(max_bytes + 1)  # it may grow after a check of its size
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", str(file))
    return content
