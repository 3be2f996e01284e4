"""Decides which array elements all have one layout, so that the array can be read as rows."""

import struct
from dataclasses import dataclass

from protocol_codecs import kinds
from protocol_codecs.kinds import Kind
from protocol_codecs.message import Message


@dataclass(frozen=True, slots=True)
class Row:
    """The layout of one element: ``codes`` for ``struct``, and the fields that its values are.

    ``text`` is the one field of the element that is a nullable text, if it has one: the layout then holds for
    elements in which that text is null or empty. Its length, at ``text_offset``, and the count of tagged
    fields, at ``tags_offset``, are left out of ``codes``; whoever reads rows checks them apart.
    """

    codes: str
    names: tuple[str, ...]
    text: str | None
    text_offset: int
    tags_offset: int | None

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return size_of(self.codes)


def size_of(codes: str) -> int:
    """Return how many bytes these ``struct`` codes take."""
    return struct.calcsize(f">{codes}")


def code_of(kind: Kind) -> str:
    """Return the ``struct`` code of a kind of fixed width; empty for all others."""
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
    """Return the layout of the elements, or None if they differ in size by more than one empty string."""
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
            codes += "x" if flexible else "xx"
        else:
            return None
    tags_offset = size_of(codes) if flexible else None
    return Row(codes + "x" * flexible, tuple(names), text, text_offset, tags_offset)
