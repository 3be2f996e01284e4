"""The configuration and policy that a command needs, or its end (exit code 2) with what is wrong, also of the files
that they name.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from protocol_codecs.printable import printable
from proxy.config.document import ConfigError, KeyPath
from proxy.config.fleet import UnreadableSecret
from proxy.config.hosting import check_hosting
from proxy.config.loader import ReadConfig, read_config
from proxy.config.policy_source import LoadedPolicy, load_policy_from, policy_path
from proxy.config.schema import Config
from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.runtime.exit_codes import ExitCode
from proxy.server.process import StartError, check_fleet
from proxy.transport.tls_errors import TlsFilesError
from translation.policy.policy import Policy

INVALID = (ConfigError, TlsFilesError, StartError, UnreadableSecret)
"""What the checks of the files and secrets that a configuration names raise."""


def load(file: Path) -> tuple[Config, Policy]:
    """The configuration and the policy that it names; ends the command with what is wrong."""
    try:
        config, policy = checked(file)
    except ConfigError as error:
        raise refused(error) from None
    return config, Policy() if policy is None else policy.policy


class Checked(NamedTuple):
    """A configuration without errors, and the policy that it names."""

    config: Config
    policy: LoadedPolicy | None
    """None without a policy: then every group is observed."""


def checked(file: Path, folder: Path | None = None) -> Checked:
    """The configuration and the policy that it names. Paths in it are relative to ``folder``, by default the file's.

    :raises ConfigError: with all that is wrong with them, and with the files and secrets that the configuration names.
    """
    read = read_config(file, folder=folder)
    config, document, problems = read
    problems += problems_of_files(read)
    policy = None
    source = policy_path(config, (folder or file.parent) / file.name)
    if source is not None:
        try:
            policy = load_policy_from(source, manifest_required=config.policy.manifest_required)
        except ConfigError as error:
            problems += (
                document.problem(("policy", "file"), line) if line.startswith(f"{source}: ") else line
                for line in error.problems
            )
    if problems:
        raise ConfigError(*problems)
    check_hosting(config, Policy() if policy is None else policy.policy)
    return Checked(config, policy)


def problems_of_files(read: ReadConfig) -> Iterator[str]:
    """Yield what is wrong with the files and secrets that a configuration names, but for its policy."""
    config, document = read.config, read.document
    for check in (check_fleet, _check_hook, _check_preflight, _check_admin_token):
        try:
            check(config)
        except INVALID as error:
            yield from (document.problem((), line) for line in str(error).splitlines())
    for path, tls, names in _tls_sections(config):
        from proxy.transport.tls_context import file_problems  # noqa: PLC0415 - many configurations have no TLS

        for key, text in file_problems(tls, names):
            yield document.problem((*path, key) if key else path, text)
    if config.identity is not None:
        from proxy.identity.setup import identity_problems  # noqa: PLC0415 - many clients have no certificates

        yield from (document.problem(path, text) for path, text in identity_problems(config))


def _check_hook(config: Config) -> None:
    if config.hook is not None:
        from proxy.control.hook_caller import check_hook  # noqa: PLC0415 - most configurations have no hook

        check_hook(config.hook)


def _check_preflight(config: Config) -> None:
    section = config.preflight
    if section.accept or section.kafka_version is not None or section.replicas is not None:
        from proxy.preflight.judge import check_preflight  # noqa: PLC0415 - all checks come with it

        check_preflight(config)


def _check_admin_token(config: Config) -> None:
    if config.admin.token_file is not None:
        from proxy.admin.access import read_tokens  # noqa: PLC0415 - many configurations have no token

        read_tokens(config.admin.token_file)


def _tls_sections(
    config: Config,
) -> Iterator[tuple[KeyPath, ListenerTls | UpstreamTls, Collection[str]]]:
    """Each section with its key, and the names that its certificate must be for."""
    for number, listener in enumerate(config.listeners):
        if listener.tls is not None:
            yield ("listeners", number, "tls"), listener.tls, listener.server_names
    if config.admin.tls is not None:
        yield ("admin", "tls"), config.admin.tls, ()
    if config.control is not None and config.control.tls is not None:
        yield ("control", "tls"), config.control.tls, ()
    if config.upstream.tls is not None:
        yield ("upstream", "tls"), config.upstream.tls, ()


def refused(error: Exception, code: ExitCode = ExitCode.USAGE) -> typer.Exit:
    """Print what is wrong to standard error. Returns the end of the command, for the caller to raise."""
    for line in str(error).splitlines():
        typer.echo(printable(f"error: {line}"), err=True)
    return typer.Exit(code)
