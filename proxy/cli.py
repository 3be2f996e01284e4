"""The command line: ``epochgate run``, ``epochgate config check|schema``, ``epochgate policy check|plan``,
``epochgate status``.
"""

import json
import urllib.error
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import msgspec
import trio
import typer

from protocol_codecs.printable import printable
from proxy.config.file_watcher import FileWatcher, Reloadable
from proxy.config.loader import ConfigError, load_config, load_policy, policy_file, policy_of
from proxy.config.policy_plan import LiveGroups, explain, plan, summary, unused
from proxy.config.schema import Config
from proxy.metrics.registry import software_version
from proxy.observability.admin_client import fetch_groups
from proxy.observability.status_command import status
from proxy.runtime.log_setup import configure
from proxy.server.policy_reloader import PolicyReloader
from proxy.server.process import make_translator, run_to_exit
from proxy.server.server import Server
from proxy.transport.tls_context import TlsFilesError, check_files
from proxy.workers.supervisor import Supervisor
from translation.policy.policy import Policy

BAD_CONFIG = 2
"""Exit code for a configuration, policy or command line that can't be."""

NO_ANSWER = 1
"""Exit code if the running proxy that is asked does not answer."""

_ADMIN_S = 10.0
"""Patience with a running proxy's admin port."""

COMMANDS = "epochgate.commands"
"""Entry points of this group are called with the command line, to add their commands to it."""

app = typer.Typer(
    name="epochgate",
    help="Online migration proxy for Kafka consumer groups.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)
policy_app = typer.Typer(help="Look at the policy.", no_args_is_help=True)
app.command()(status)
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
    serve = _supervise if loaded.workers > 1 else _serve
    run_to_exit(lambda: trio.run(serve, loaded, policy, policy_file(loaded, config), config.parent))


async def _serve(config: Config, policy: Policy, policy_path: Path | None, folder: Path) -> None:
    server = Server(config, make_translator(config, policy), policy=policy, folder=folder)
    await _run(server, server.set_policy, policy_path, server.certificates)


async def _supervise(config: Config, policy: Policy, policy_path: Path | None, folder: Path) -> None:
    supervisor = Supervisor(config, policy, folder)
    await _run(supervisor, supervisor.set_policy, policy_path, supervisor.certificates)


async def _run(
    process: Server | Supervisor,
    set_policy: Callable[[Policy], None],
    policy_path: Path | None,
    certificates: Sequence[Reloadable] = (),
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.stop_at_signals)
        reloadables: list[Reloadable] = list(certificates)
        if policy_path is not None:
            reloadables.append(PolicyReloader(policy_path, set_policy, process.metrics))
        nursery.start_soon(FileWatcher(reloadables).run)
        await process.run()
        nursery.cancel_scope.cancel()


def _load(config: Path) -> tuple[Config, Policy]:
    try:
        loaded = load_config(config)
        check_files(tuple(listener.tls for listener in loaded.listeners), loaded.upstream.tls)
        return loaded, policy_of(loaded, config)
    except (ConfigError, TlsFilesError) as error:
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
    """Say whether a policy file can be used, and what each of its rules does."""
    policy = _load_policy(file)
    rules = "1 rule" if len(policy.rules) == 1 else f"{len(policy.rules)} rules"
    typer.echo(f"{file}: good, {rules}, default {policy.default}")
    for line in explain(policy):
        typer.echo(printable(line))


@policy_app.command("plan")
def plan_policy(
    file: Path,
    admin: Annotated[str, typer.Option(help="Admin port of the running proxy.")] = "http://127.0.0.1:9080",
) -> None:
    """Say what a policy file would change in the live groups of a running proxy, and what it can't. Changes nothing."""
    policy = _load_policy(file)
    try:
        live = _live_groups(admin)
    except (OSError, ValueError) as error:
        said = error.reason if type(error) is urllib.error.URLError else error  # which wraps the reason
        typer.echo(printable(f"error: {admin}: {said}"), err=True)
        raise typer.Exit(NO_ANSWER) from None
    changes = plan(policy, live.groups)
    of_all = summary(changes, len(live.groups), live.left_out)
    for line in (*changes, *unused(policy, live.groups), *of_all):
        typer.echo(printable(str(line)))


def _load_policy(file: Path) -> Policy:
    try:
        return load_policy(file)
    except ConfigError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(BAD_CONFIG) from None


def _live_groups(admin: str) -> LiveGroups:
    """What the proxy knows of groups.

    :raises OSError: nobody answers there, or with an error.
    :raises ValueError: that is no admin port of ours.
    """
    if not admin.startswith(("http://", "https://")):
        raise ValueError("expected http://host:port")
    return fetch_groups(admin.rstrip("/"), LiveGroups, timeout_s=_ADMIN_S)


@cache
def command_line() -> typer.Typer:
    """Every command: those of this module, and those that other packages add as entry points (:data:`COMMANDS`)."""
    for added in entry_points(group=COMMANDS):
        added.load()(app)
    return app


def main() -> None:
    """The console script."""
    command_line()()


if __name__ == "__main__":
    main()
