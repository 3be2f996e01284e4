"""The command line: ``epochgate run``, ``epochgate config check|schema``, ``epochgate policy check``."""

import json
import resource
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import structlog
import trio
import typer

from proxy.config import Config
from proxy.config_file import ConfigError, load_config, load_policy, policy_of
from proxy.demo.cli import demo
from proxy.listeners import BindError
from proxy.logs import configure
from proxy.metrics import software_version
from proxy.server import Server
from proxy.upstream import UnreachableError
from translation.policy import Policy
from translation.translator import Translator

BAD_CONFIG = 2
"""Exit code for a configuration, policy or command line that can't be."""

CANT_START = 1
"""Exit code for a start that failed: a port is taken, or no broker answers."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy")

app = typer.Typer(
    name="epochgate",
    help="Online migration proxy for Kafka consumer groups.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)
policy_app = typer.Typer(help="Look at the policy.", no_args_is_help=True)
app.command()(demo)
app.add_typer(config_app, name="config")
app.add_typer(policy_app, name="policy")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"epochgate {software_version()}")
        raise typer.Exit


@app.callback()
def _main(
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def run(config: Annotated[Path, typer.Option(help="The configuration file (YAML).")]) -> None:
    """Run the proxy."""
    loaded, policy = _load(config)
    configure(loaded.log)
    _raise_file_limit()
    try:
        trio.run(_serve, loaded, policy)
    except* (BindError, UnreachableError) as errors:
        for error in _leaves(errors):
            _log.error("can't start", reason=str(error))
        sys.exit(CANT_START)


def _raise_file_limit() -> None:
    """Allow as many sockets as the system lets this process have: each client takes two."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _leaves(error: BaseException) -> list[BaseException]:
    """The exceptions in a group of groups, one for each nursery that they passed."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]


async def _serve(config: Config, policy: Policy) -> None:
    server = Server(config, Translator(policy))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.stop_at_signals)
        await server.run()
        nursery.cancel_scope.cancel()


def _load(config: Path) -> tuple[Config, Policy]:
    try:
        loaded = load_config(config)
        return loaded, policy_of(loaded, config)
    except ConfigError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(BAD_CONFIG) from None


@config_app.command("check")
def check_config(file: Path) -> None:
    """Say whether a configuration file, and the policy that it names, can be used."""
    _load(file)
    typer.echo(f"{file}: good")


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON schema of the configuration file."""
    typer.echo(json.dumps(msgspec.json.schema(Config), indent=2))


@policy_app.command("check")
def check_policy(file: Path) -> None:
    """Say whether a policy file can be used."""
    try:
        policy = load_policy(file)
    except ConfigError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(BAD_CONFIG) from None
    typer.echo(f"{file}: good, {len(policy.rules)} rules, default {policy.default}")


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
