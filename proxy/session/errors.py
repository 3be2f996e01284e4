"""The errors that end a connection."""


class ClientError(Exception):
    """The client sent something that ends its connection. ``kind`` is one word for metrics."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class UpstreamError(Exception):
    """The broker sent something that ends the connection. ``kind`` is one word for metrics."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
