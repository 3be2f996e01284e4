"""All exceptions of this package."""

from protocol_codecs.error_code import ErrorCode


class CoordinatorError(Exception):
    """Base of all errors of this package."""


class RequestRefused(CoordinatorError):
    """A request is answered with this error; ``message`` says why, for responses that have room for it."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message or code.name


class BrokenInvariant(CoordinatorError):
    """The coordinator's own state is inconsistent: a bug, never a client's fault."""


class CorruptLog(CoordinatorError):
    """A log cannot be read beyond ``position``, the position in bytes of the first bad batch.

    ``offset`` is that of the first record in it.
    """

    def __init__(self, name: str, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{name}: corrupt from offset {offset} on (byte {position}): {reason}")
        self.name = name
        self.position = position
        self.offset = offset
        self.reason = reason
