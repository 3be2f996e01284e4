"""Text that a peer made up, made safe to print.

Group ids, client ids and error messages may hold anything: escape sequences that a terminal obeys, line breaks that
look like a second log line, and marks that turn the direction of what follows. Whatever Python does not call
printable (control and format characters, separators other than the space, surrogates) is written as an escape.
"""

import json


def printable(text: str, keep: str = "") -> str:
    r"""The text with ``\x1b`` or ``\u202e`` in place of what is not printable; characters in ``keep`` stay."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else _escape(one) for one in text)


def printable_json(text: str) -> str:
    r"""A JSON document that means the same, with ``\u001b`` or ``\u202e`` in its strings; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
