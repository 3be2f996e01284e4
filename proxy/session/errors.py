"""The errors that end a connection."""


class ClientError(Exception):
    """The client sent something that ends its connection. ``kind`` is one word for metrics."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class NoPrincipalError(ClientError):
    """The client's certificate has no principal, or has expired: the proxy speaks for it no more."""

    def __init__(self, message: str) -> None:
        super().__init__("principal", message)


class UpstreamError(Exception):
    """The broker sent something that ends the connection. ``kind`` is one word for metrics."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
