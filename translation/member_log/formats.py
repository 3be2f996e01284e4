"""The formats of the member log's records (``fleet.record_format``): those that this release reads, and the one that
it writes.

A record names its format in a header, so that a reader knows what it has before it looks at the value. All replicas
have to make the same of every record. So a replica that finds a format it does not know serves that member no longer,
whatever the record says (:mod:`proxy.member_log.record_decoding`); members of other records are not affected.

**No number for an addition.** A reader ignores headers and fields that it does not know, and a missing field has its
default. So a field may be added to a format if its default is safe: a replica that does not know the field leaves it
out when it takes the member over. What it doesn't know of the snapshot it writes on as it is, until the client joins.

**A number for everything else**: another kind of record, a field that may not get lost, another encoding. Which of two
records counts, keys and partitions are the same in all formats.

**A format is read one release before it is written.** The release that adds a format writes the one before it, unless
``fleet.record_format`` says otherwise; the next release writes the new one. So each release reads whatever the one
before it and the one after it write.
"""

from collections.abc import Callable
from typing import NamedTuple

from translation.member_log.records import Ignored, InvalidRecord, MemberRecord, decode_value, encode_value

FORMAT_HEADER = "v"


class Format(NamedTuple):
    """How the value of a record is written as bytes.

    ``encode`` and ``decode`` raise :class:`~translation.member_log.records.InvalidRecord`. A format may be unable to
    say all that a record has: what it leaves out has its default when it is read.
    """

    number: int
    """From 1 to 255."""
    encode: Callable[[MemberRecord], bytes]
    decode: Callable[[bytes], MemberRecord]

    @property
    def header(self) -> bytes:
        """The value of :data:`FORMAT_HEADER`."""
        return bytes((self.number,))

    def as_read(self, record: MemberRecord) -> MemberRecord:
        """What others will read if this record is written."""
        return self.decode(self.encode(record))


FORMATS: dict[int, Format] = {1: Format(1, encode_value, decode_value)}
"""The formats that this release reads, by number. It can write each of them."""

DEFAULT_FORMAT = 1
"""The one that it writes if nobody says otherwise: the newest that the release before reads."""


def format_of(header: object) -> Format | None:
    """The format of a record, by the value of its header; None if this release does not know it.

    :raises InvalidRecord: that is no number of a format, so no release of Epochgate wrote the record.
    """
    if not isinstance(header, bytes) or len(header) != 1 or not header[0]:
        raise InvalidRecord(
            f"no format ({header!r:.64}); this release reads {known_formats()}", Ignored.FORMAT
        )
    return FORMATS.get(header[0])


def known_formats() -> str:
    """The numbers of the formats that this release reads, for people."""
    return ", ".join(str(number) for number in sorted(FORMATS))
