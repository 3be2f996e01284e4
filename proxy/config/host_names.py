"""Checks for host names in the configuration."""

import ipaddress
import re
from collections.abc import Iterable

NODE = "{node}"
"""Placeholder for a node's id in ``nodes_by_name``."""

_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)
_MAX_NAME = 253
_NOT_IN_HOST = re.compile(r"[\s:/\[\]{}@,]")


def is_host(text: str) -> bool:
    """Whether ``text`` can be a host name or an IP address without brackets; a URL, a port or a list can't."""
    if not text.isprintable() or " " in text:  # also in the zone of an IPv6 address, which may be anything
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        try:
            return text != "" and not _NOT_IN_HOST.search(text) and bool(text.encode("idna"))
        except UnicodeError:  # a label between dots is empty or too long
            return False
    return True


def check_host(key: str, text: str) -> None:
    """Check a configured host at load time, so that the mistake does not first show at a client or in the resolver.

    :raises ValueError: ``text`` can't be a host.
    """
    if not is_host(text):
        raise ValueError(f"`{key}`: expected a host name or an IP address, got {text!r}")


def check_names(names: Iterable[str]) -> None:
    """Check ``hosts``, the names by which an HTTP port may be called.

    :raises ValueError: one can't be a host, also without ``*.`` at its beginning.
    """
    for name in names:
        bare = name.removeprefix("*.")
        check_host("hosts", "" if "*" in bare else bare)


def check_server_name(key: str, text: str) -> None:
    """Check a name that clients send in a TLS handshake (RFC 6066): ASCII, no IP address, no dot at the end.

    :raises ValueError: ``text`` can't be one.
    """
    labels = text.split(".")
    if len(text) > _MAX_NAME or labels[-1].isdigit() or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(
            f"`{key}`: expected a host name in ASCII (others in their form with `xn--`) and no IP address, got {text!r}"
        )
