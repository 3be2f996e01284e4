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
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, "a directory, not a file", str(file))
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    with os.fdopen(descriptor, "rb") as opened:
        content = opened.read(max_bytes + 1)  # it may grow after a check of its size
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", str(file))
    return content


def unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Why a file can't be read, for people who have its name already."""
    if isinstance(error, UnicodeDecodeError):
        return f"can't be read: not UTF-8 at byte {error.start}"
    return f"can't be read: {error.strerror or error}"
