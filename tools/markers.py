"""Replaces generated parts of hand-written pages, each between ``<!-- name -->`` and ``<!-- /name -->``."""


def replaced(text: str, name: str, body: str) -> str:
    """Return the page with another body between the markers of ``name``, which stay.

    :raises ValueError: the page does not have both markers, once each and in this order.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"expected {begin.strip()} and {end.strip()}, once each")
    return text[: text.index(begin) + len(begin)] + body + text[text.index(end) :]
