"""Escapes text from a peer so that it is safe to print.

Group ids, client ids and error messages may contain anything: terminal escape sequences, line breaks that forge a
second log line, and bidirectional control characters. Whatever Python does not call printable (control and format
characters, separators other than the space, surrogates) is written as an escape.
"""

import json


def printable(text: str, keep: str = "") -> str:
    r"""Return the text with ``\x1b`` or ``\u202e`` in place of what is not printable; characters in ``keep`` stay."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else _escape(one) for one in text)


def printable_json(text: str) -> str:
    r"""Return an equivalent JSON document with ``\u001b`` or ``\u202e`` in its strings; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
