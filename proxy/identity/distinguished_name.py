"""The subject of a certificate as the name of a principal, as Kafka's brokers have it: RFC 2253 by Java's
``X500Principal.getName()``.

Relative names stand in reverse order. Types that RFC 2253 has no short name for are dotted numbers with ``#`` and the
value's DER in hexadecimal digits (``emailAddress`` is one of them). The text is what ACLs name, so a name that two
readers could read differently is no name here: see :class:`UnusableName`.
"""

import unicodedata

from proxy.identity.der import OBJECT_IDENTIFIER, SEQUENCE, SET, DerError, elements, object_identifier, only

MOST_CHARS = 4_096
"""Characters of a name. Kafka has no limit; ACLs and logs have to hold it."""

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The types that Java writes with a word in RFC 2253 form (``sun.security.x509.AVAKeyword``)."""

_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E
_TEXTS = {_UTF8: "utf-8", _PRINTABLE: "ascii", _IA5: "ascii", _GENERAL: "ascii", _T61: "ascii"}
"""The kinds of text, each in the one encoding in which no reader reads it differently."""

_ESCAPED = frozenset(',=+<>#;"\\')
_NOT_SHOWN = frozenset({"Cc", "Cs", "Zl", "Zp"})
_MOST_RELATIVE_NAMES = 64


class UnusableName(Exception):
    """The name can't be a principal: malformed, empty, too long, with control characters, or in a doubtful encoding.

    The message says which, and shows nothing of the name.
    """


def rfc2253(name: bytes) -> str:
    """Return a DER name (``Name`` of RFC 5280) in RFC 2253 form.

    :raises UnusableName: see there.
    """
    try:
        relative = [_relative(one.contents, one.tag) for one in elements(only(name, SEQUENCE))]
    except DerError as error:
        raise UnusableName(f"the subject is malformed: {error}") from None
    if len(relative) > _MOST_RELATIVE_NAMES:
        raise UnusableName(f"the subject has more than {_MOST_RELATIVE_NAMES} parts")
    text = ",".join(reversed(relative))
    if not text:
        raise UnusableName("the subject is empty")
    if len(text) > MOST_CHARS:
        raise UnusableName(f"the subject has more than {MOST_CHARS} characters")
    return text


def _relative(pairs: bytes, tag: int) -> str:
    if tag != SET:
        raise DerError("a part is no set")
    parts = [_pair(pair.contents, pair.tag) for pair in elements(pairs)]
    if not parts:
        raise DerError("a part is empty")
    return "+".join(parts)


def _pair(contents: bytes, tag: int) -> str:
    parts = list(elements(contents)) if tag == SEQUENCE else []
    if len(parts) != 2 or parts[0].tag != OBJECT_IDENTIFIER:
        raise DerError("a part is not a type with a value")
    kind, value = parts
    oid = object_identifier(kind.contents)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or (value.tag not in _TEXTS and value.tag != _BMP):
        return f"{keyword or oid}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(_text(value.contents, value.tag))}"


def _text(value: bytes, tag: int) -> str:
    encoding = _TEXTS.get(tag)
    if encoding is None:
        raise UnusableName("the subject has a text in UTF-16 (BMPString), which Java reads as UTF-8")
    try:
        text = value.decode(encoding)
    except UnicodeDecodeError:
        raise UnusableName("the subject has a text that is not of the encoding that it names") from None
    if any(unicodedata.category(char) in _NOT_SHOWN for char in text):
        raise UnusableName("the subject has a control character or a line end")
    return text


def _escaped(text: str) -> str:
    """Escape as RFC 2253, section 2.4; of spaces those at either end."""
    body = text.strip(" ")
    lead = len(text) - len(text.lstrip(" "))
    trail = len(text) - lead - len(body)
    inner = "".join(f"\\{char}" if char in _ESCAPED else char for char in body)
    return "\\ " * lead + inner + "\\ " * trail
