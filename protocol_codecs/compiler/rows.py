"""Which array elements have one layout, so that an array of them can be read as rows."""

import struct
from dataclasses import dataclass

from protocol_codecs import kinds
from protocol_codecs.kinds import Kind
from protocol_codecs.message import Message

TAGS = "tags"
TEXT_SIZE = "text_size"


@dataclass(frozen=True, slots=True)
class Row:
    """The layout of one element: ``codes`` for ``struct``, and what each of its values is called.

    ``text`` is the one field of the element that is a nullable text, if it has one; the layout then holds
    for elements in which that text is null or empty, and its length is at ``text_offset``. If the tagged fields'
    count comes right after it, both are read as one number (``joined_tags``).
    """

    codes: str
    names: tuple[str, ...]
    text: str | None
    text_offset: int
    joined_tags: bool

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return size_of(self.codes)


def size_of(codes: str) -> int:
    """How many bytes these ``struct`` codes take."""
    return struct.calcsize(f">{codes}")


def code_of(kind: Kind) -> str:
    """The ``struct`` code of a kind of fixed width; empty for all others."""
    match kind:
        case kinds.Number():
            return kind.code
        case kinds.Boolean():
            return "?"
        case kinds.Identifier():
            return f"{kinds.UUID_SIZE}s"
        case _:
            return ""


def layout(message_type: type[Message], version: int, *, flexible: bool) -> Row | None:
    """The layout of the elements, or None if they differ in size by more than one empty text."""
    codes, names, text, text_offset = "", [], None, 0
    for field in message_type.__schema__.fields:
        if field.tagged_in(version):
            return None
        if not field.plain_in(version):
            continue
        code = code_of(field.kind)
        if code:
            codes += code
            names.append(field.name)
        elif isinstance(field.kind, kinds.Text) and text is None and version in field.nullable:
            text, text_offset = field.name, size_of(codes)
            codes += "B" if flexible else "h"
            names.append(TEXT_SIZE)
        else:
            return None
    joined_tags = flexible and text is not None and names[-1] == TEXT_SIZE
    if joined_tags:
        codes = codes[:-1] + "H"
    elif flexible:
        codes += "B"
        names.append(TAGS)
    return Row(codes, tuple(names), text, text_offset, joined_tags)
