"""What a child could send instead of a message."""

from collections.abc import Mapping

NO_MESSAGES: Mapping[str, bytes] = {
    "nothing": b"",
    "no msgpack": b"\xc1 junk",
    "half a message": b"\x92\xa4text",
    "a text that is not UTF-8": b"\x92\xa4t\xffxt\x90",
    "another type": b"\x92\x01\x90",
    "arrays within arrays": b"\x91" * 5_000,
    "arrays within a field that nobody knows": b"\x93\xa4text\x90" + b"\x91" * 5_000 + b"\x90",
    "an array that can't be so long": b"\xdd\xff\xff\xff\xff",
}
