"""The exceptions that the codecs raise; each message names the offending place."""


class CodecError(ValueError):
    """Base of all errors of this package."""


class MalformedMessage(CodecError):
    """The bytes are not this message in this version.

    ``message`` is the message's name, ``field`` the path of the field that could not be read (such as
    ``JoinGroupRequest.protocols[2].metadata``), ``offset`` the position in the given buffer where that field,
    or its length, begins.
    """

    def __init__(self, message: str, version: int, field: str, offset: int, reason: str) -> None:
        super().__init__(f"malformed {message} v{version}: {field} at byte {offset}: {reason}")
        self.message = message
        self.version = version
        self.field = field
        self.offset = offset
        self.reason = reason


class TooManyElements(CodecError):
    """A message has more elements than the limit that its reader set; see ``protocol_codecs.decode_bounded``.

    ``message`` is the message's name.
    """

    def __init__(self, message: str, version: int) -> None:
        super().__init__(f"{message} v{version} has more elements in its arrays than are taken here")
        self.message = message
        self.version = version


class UnencodableMessage(CodecError):
    """The value cannot be expressed in this version of its message.

    A field that the version does not carry has a value other than its default (and may not be dropped
    silently), a value is null where the version has no null, is out of range, or is of the wrong type.
    """

    def __init__(self, message: str, version: int, field: str, reason: str) -> None:
        super().__init__(f"cannot encode {message} v{version}: {field}: {reason}")
        self.message = message
        self.version = version
        self.field = field
        self.reason = reason


class UnsupportedVersion(CodecError):
    """The message is not declared in this version."""

    def __init__(self, message: str, version: int, declared: str) -> None:
        super().__init__(f"{message} has no version {version} (declared: {declared})")
        self.message = message
        self.version = version
