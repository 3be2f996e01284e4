"""The sections ``control`` and ``hook`` of the configuration, by which people, and a hook, have a say in moves by
steps (``control.socket_mode``).
"""

import ipaddress
import re
import shlex
from functools import cached_property
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from msgspec import Meta
from msgspec.structs import replace

from proxy.config.host_names import check_host
from proxy.config.network import Port
from proxy.config.section import Section
from proxy.config.tls import ClientAuth, ListenerTls, with_absolute_paths

_Path = Annotated[str, Meta(min_length=1)]
_MODE = re.compile(r"0?[0-7]{3}", re.ASCII)
_LONGEST_SOCKET_PATH = 107
"""Bytes: what Linux takes (``sun_path``)."""
_LONGEST_URL = 2_000
_WEB_PORTS = {"http": 80, "https": 443}


class Control(Section, frozen=True, kw_only=True, dict=True):
    """Where `epochgate approve`, `pause`, `resume` and `rollback` are listened to: a Unix socket, or TLS with client
    certificates."""

    socket: Annotated[
        _Path | None,
        Meta(
            description="Path of a Unix socket, relative to this file. Whoever may open it may give commands. Either "
            "this or `bind`.",
        ),
    ] = None
    socket_mode: Annotated[
        str, Meta(description='Permissions of the socket, in octal: `"0660"` lets its group in.')
    ] = "0600"
    bind: Annotated[str | None, Meta(description="Address to listen on by TLS. Either this or `socket`.")] = (
        None
    )
    port: Annotated[Port, Meta(description="Port, with `bind`. 0: any free port.")] = 9081
    tls: Annotated[
        ListenerTls | None,
        Meta(description="With `bind`: the certificate, and with `client_auth: required` those of clients."),
    ] = None
    allowed_subjects: Annotated[
        tuple[str, ...],
        Meta(
            description="With `bind`: subjects of client certificates that may give commands, as RFC 4514 writes them: "
            "`CN=alice,O=Example`. Others are refused, with the subject in the log."
        ),
    ] = ()

    def __post_init__(self) -> None:
        """Refuse a listener that anybody could speak to."""
        if (self.socket is None) == (self.bind is None):
            raise ValueError("`control` needs exactly one of `socket` and `bind`")
        if _MODE.fullmatch(self.socket_mode) is None:
            raise ValueError(
                f'`socket_mode`: expected three octal digits such as "0600", got {self.socket_mode!r}'
            )
        if self.mode & 0o007:
            raise ValueError("`socket_mode` must not let everybody in: its last digit has to be 0")
        if self.bind is None:
            if self.tls is not None or self.allowed_subjects:
                raise ValueError("`tls` and `allowed_subjects` belong to `bind`")
            return
        check_host("bind", self.bind)
        if self.tls is None or self.tls.client_auth is not ClientAuth.REQUIRED:
            raise ValueError(
                "`control.bind` needs `tls` with `client_auth: required`: else anybody could roll a migration back"
            )
        if not self.allowed_subjects:
            raise ValueError("`control.bind` needs `allowed_subjects`")

    @property
    def options(self) -> str:
        """The options by which commands on this machine reach the proxy, for a shell."""
        if self.socket is not None:
            return f"--control {shlex.quote(self.socket)}"
        return f"--control https://{self.bind}:{self.port} --cert FILE --key FILE"

    @property
    def mode(self) -> int:
        """The permissions of the socket."""
        return int(self.socket_mode, 8)


class Hook(Section, frozen=True, kw_only=True, dict=True):
    """What is asked over HTTP before a step of a move begins, and told when one has settled, or is held."""

    url: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=_LONGEST_URL,
            description="Where to POST: `https://…`, or `http://…` without a token. Redirects are not followed.",
        ),
    ]
    ca: Annotated[
        str | None,
        Meta(
            description="PEM file with the authorities that its certificate comes from, relative to this file. "
            "`null`: those of the operating system."
        ),
    ] = None
    token_file: Annotated[
        str | None,
        Meta(
            description="File with a bearer token, relative to this file. It is read for each call. Needs https."
        ),
    ] = None
    timeout_s: Annotated[
        float,
        Meta(gt=0, le=30, description="Seconds that one call may take, from the name to the answer's end."),
    ] = 10.0

    def __post_init__(self) -> None:
        """Refuse what is no URL, and a token that would be sent without TLS. No message has it: it may be secret."""
        if not self.url.isascii() or not self.url.isprintable() or " " in self.url:
            raise ValueError("`hook.url` has characters that a URL has not")
        try:
            parts = self._parts
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise ValueError("`hook.url` is no URL") from None
        if parts.scheme not in _WEB_PORTS:
            raise ValueError("`hook.url` has to begin with https:// or http://")
        if parts.username is not None or parts.password is not None:
            raise ValueError("`hook.url` has a user name or password in it: use `token_file`")
        if parts.fragment or port == 0:
            raise ValueError("`hook.url` has a fragment, or port 0")
        check_host("hook.url", host)
        if self.token_file is not None and parts.scheme != "https":
            raise ValueError("`hook.token_file` needs https")

    @cached_property
    def _parts(self) -> SplitResult:
        return urlsplit(self.url)

    @property
    def is_tls(self) -> bool:
        """Whether the URL is https."""
        return self._parts.scheme == "https"

    @property
    def host(self) -> str:
        """The host, without brackets."""
        return self._parts.hostname or ""

    @property
    def port(self) -> int:
        """The port, by default that of the scheme."""
        return self._parts.port or _WEB_PORTS[self._parts.scheme]

    @property
    def authority(self) -> str:
        """Host and port as the header ``Host`` has them."""
        host = f"[{self.host}]" if _is_ipv6(self.host) else self.host
        return f"{host}:{self.port}"

    @property
    def target(self) -> str:
        """Path and query. It may be a secret."""
        query = f"?{self._parts.query}" if self._parts.query else ""
        return f"{self._parts.path or '/'}{query}"

    @property
    def shown(self) -> str:
        """What may be said of the URL in a log."""
        return f"{self._parts.scheme}://{self.authority}"


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


def with_absolute_control(control: Control, folder: Path) -> Control:
    """Resolve the paths, which are relative to the configuration's folder.

    :raises ValueError: the path of the socket is longer than the system takes.
    """
    path = None if control.socket is None else str((folder / control.socket).absolute())
    if path is not None and len(path.encode()) > _LONGEST_SOCKET_PATH:
        raise ValueError(
            f"`control.socket`: {path} has more than {_LONGEST_SOCKET_PATH} bytes, which a socket can't have"
        )
    return replace(control, socket=path, tls=control.tls and with_absolute_paths(control.tls, folder))


def with_absolute_hook(hook: Hook, folder: Path) -> Hook:
    """Resolve the paths, which are relative to the configuration's folder."""
    return replace(
        hook,
        ca=None if hook.ca is None else str(folder / hook.ca),
        token_file=None if hook.token_file is None else str(folder / hook.token_file),
    )
