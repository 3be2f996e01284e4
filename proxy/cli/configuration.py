"""The configuration and policy that a command needs, or its end with what is wrong."""

from pathlib import Path

import typer

from protocol_codecs.printable import printable
from proxy.config.fleet import UnreadableSecret
from proxy.config.hosting import check_hosting
from proxy.config.loader import ConfigError, load_config
from proxy.config.policy_source import policy_of
from proxy.config.schema import Config
from proxy.console.exit_codes import ExitCode
from proxy.server.process import StartError, check_fleet
from proxy.transport.tls_errors import TlsFilesError
from translation.policy.policy import Policy

INVALID = (ConfigError, TlsFilesError, StartError, UnreadableSecret)
"""What a configuration is refused with."""


def load(config: Path) -> tuple[Config, Policy]:
    """The configuration and the policy that it names; ends the command with what is wrong."""
    try:
        return checked(config)
    except INVALID as error:
        raise refused(error) from None


def checked(config: Path) -> tuple[Config, Policy]:
    """The configuration and the policy that it names.

    :raises ConfigError: one of them is invalid.
    :raises TlsFilesError: a certificate or key that it names can't be used.
    :raises StartError: the Kafka client that ``fleet`` needs is not installed.
    :raises UnreadableSecret: a secret of ``fleet`` is not there.
    """
    loaded = load_config(config)
    check_fleet(loaded)
    control = None if loaded.control is None else loaded.control.tls
    served = [tls for tls in (*(listener.tls for listener in loaded.listeners), control) if tls is not None]
    if served or loaded.upstream.tls is not None:
        from proxy.transport.tls_context import check_files  # noqa: PLC0415 - many configurations have no TLS

        check_files(served, loaded.upstream.tls)
    if loaded.hook is not None:
        from proxy.control.hook_caller import check_hook  # noqa: PLC0415 - most configurations have no hook

        check_hook(loaded.hook)
    section = loaded.preflight
    if section.accept or section.kafka_version is not None or section.replicas is not None:
        from proxy.preflight.judge import check_preflight  # noqa: PLC0415 - all checks come with it

        check_preflight(loaded)
    policy = policy_of(loaded, config)
    check_hosting(loaded, policy)
    return loaded, policy


def refused(error: Exception, code: ExitCode = ExitCode.USAGE) -> typer.Exit:
    """Print what is wrong to standard error. Returns the end of the command, for the caller to raise."""
    typer.echo(printable(f"error: {error}"), err=True)
    return typer.Exit(code)
