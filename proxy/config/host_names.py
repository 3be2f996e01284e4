"""What may stand where a host is meant."""

import ipaddress
import re

_NO_HOST = re.compile(r"[\s:/\[\]{}@,]")


def is_host(text: str) -> bool:
    """Whether this can be a host name or an IP address (without brackets), and no URL, port, or list of some."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        try:
            return text != "" and not _NO_HOST.search(text) and bool(text.encode("idna"))
        except UnicodeError:  # a part between dots that is empty or too long
            return False
    return True


def check_host(key: str, text: str) -> None:
    """Refuse what is no host. Else clients would find the mistake, or the system's resolver in words of its own.

    :raises ValueError: it is none.
    """
    if not is_host(text):
        raise ValueError(f"`{key}`: expected a host name or an IP address, got {text!r}")
