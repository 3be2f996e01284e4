"""Read what operators name in the configuration: files that are files, of a size that such files have.

A path may lead to anything by mistake, or by a link in a mounted volume. A device never ends, a FIFO waits for ever,
and the thread that reads serves all connections.
"""

import errno
import os
import stat
from pathlib import Path

LARGEST = 4 * 1024 * 1024
"""Bytes of the largest file that is read unless told otherwise; certificate bundles have a few hundred thousand."""


def read_regular_file(file: Path, most_bytes: int = LARGEST) -> bytes:
    """What is in a file; links are followed.

    :raises OSError: it can't be read, is no regular file, or has more than ``most_bytes``.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(file))
        content = opened.read(most_bytes + 1)  # what the size says may change meanwhile
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"larger than {most_bytes} bytes", str(file))
    return content
