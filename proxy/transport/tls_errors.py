"""What goes wrong with TLS: on a connection, and with the files of a configuration."""

import trio


class TlsError(trio.BrokenResourceError):
    """TLS ended the connection. ``kind`` is one word for metrics; the message tells an operator what went wrong."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class TlsFilesError(Exception):
    """A file of the TLS configuration can't be used; the message names it and says why."""
