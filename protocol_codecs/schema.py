"""The schema of a message, made from its declaration; the reference codec and the compiler work from it."""

from dataclasses import dataclass

from protocol_codecs.kinds import Kind
from protocol_codecs.version_range import VersionRange

ALWAYS = VersionRange.parse("0+")
NEVER = VersionRange.parse("none")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    ``default`` is the value of the field in a version that does not carry it. ``legacy_form`` keeps the old,
    fixed-width length even in flexible versions (only the request header's client id does that).
    """

    name: str
    kind: Kind
    versions: VersionRange
    nullable: VersionRange
    default: object
    ignorable: bool
    tag: int | None
    legacy_form: bool

    def plain_in(self, version: int) -> bool:
        """Whether this version carries the field as an ordinary (not tagged) field."""
        return self.tag is None and version in self.versions

    def tagged_in(self, version: int) -> bool:
        """Whether this version carries the field as a tagged field."""
        return self.tag is not None and version in self.versions


@dataclass(frozen=True, slots=True)
class Schema:
    """One message: its name, its fields in wire order, and for a top-level message its key and versions.

    A ``fragment`` is the beginning of a message and therefore has no tagged fields behind it.
    """

    name: str
    fields: tuple[Field, ...]
    api_key: int | None = None
    versions: VersionRange = ALWAYS
    flexible: VersionRange = NEVER
    fragment: bool = False
