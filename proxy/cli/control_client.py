"""Gives commands to a running proxy: HTTP on its Unix socket, or by TLS with a client certificate."""

import http.client
import socket
import ssl
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
import typer

from protocol_codecs.foreign import JsonDecoder, Undecodable
from proxy.config.loader import ConfigError, load_config
from proxy.control.requests import CommandAnswer, CommandBody
from translation.rollout.commands import CommandKind

ControlAddress = Annotated[
    str | None,
    typer.Option(
        "--control",
        metavar="ADDRESS",
        help="Where the running proxy takes commands: the path of its Unix socket, or https://HOST:PORT.",
    ),
]
ControlConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Take the Unix socket from this configuration file, `control.socket`.",
    ),
]
_TIMEOUT_S = 25.0
"""Longer than the proxy waits for the member log."""

_ANSWER_BYTES = 1024 * 1024


class NoControlError(Exception):
    """Nothing answers there, or something else does. The message is for a person."""


class CommandInvalid(Exception):
    """The proxy does not take this for a command of somebody who may give one. The message is the proxy's."""


class Place(msgspec.Struct, frozen=True):
    """Where commands are taken: ``socket``, or else ``host`` and ``port`` with ``tls``."""

    socket: str = ""
    host: str = ""
    port: int = 0
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        return self.socket or f"https://{self.host}:{self.port}"


def place(
    address: str | None,
    config: Path | None,
    certificate: Path | None,
    key: Path | None,
    authorities: Path | None,
) -> Place:
    """Return where to give a command, from the options of the command line.

    :raises ConfigError: the options name no place, or files that can't be used.
    """
    if address is None and config is not None:
        control = load_config(config).control
        if control is None or control.socket is None:
            raise ConfigError(f"{config}: has no `control.socket`; say --control https://HOST:PORT")
        address = control.socket
    if address is None:
        raise ConfigError("say where the proxy takes commands: --control, or --config")
    if "://" not in address:
        return Place(socket=address)
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "https" or not parts.hostname or port is None or parts.path.strip("/"):
        raise ConfigError(f"--control: expected a path or https://HOST:PORT, got {address!r}")
    if certificate is None:
        raise ConfigError("--control https://… needs --cert, the certificate that says who you are")
    try:
        tls = ssl.create_default_context(cafile=None if authorities is None else str(authorities))
        tls.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # also ssl.SSLError
        raise ConfigError(f"--cert, --key or --ca can't be used: {error}") from None
    return Place(host=parts.hostname, port=port, tls=tls)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        """See :class:`http.client.HTTPConnection`."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _Problem(msgspec.Struct):
    error: str


_answer_decoder = JsonDecoder(CommandAnswer, _ANSWER_BYTES)
_problem_decoder = JsonDecoder(_Problem, _ANSWER_BYTES)


def give(where: Place, act: CommandKind, body: CommandBody) -> CommandAnswer:
    """Give a command, and return what has become of it.

    :raises NoControlError: nobody answers, or no proxy.
    :raises CommandInvalid: the proxy refuses it before it looks at the move.
    """
    connection: http.client.HTTPConnection = (
        _UnixConnection(where.socket)
        if where.tls is None
        else http.client.HTTPSConnection(where.host, where.port, timeout=_TIMEOUT_S, context=where.tls)
    )
    try:
        headers = {"Content-Type": "application/json", "Connection": "close"}
        connection.request("POST", f"/v1/{act}", msgspec.json.encode(body), headers)
        answer = connection.getresponse()
        status, data = answer.status, answer.read(_ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise NoControlError(f"{where}: {getattr(error, 'strerror', None) or error}") from None
    finally:
        connection.close()
    try:
        return _answer_decoder.decode(data)
    except Undecodable:
        pass
    try:
        raise CommandInvalid(_problem_decoder.decode(data).error)
    except Undecodable:
        raise NoControlError(
            f"{where}: what answers there is not Epochgate's `control` (status {status})"
        ) from None
