"""The command line: ``epochgate run|config|policy|status|preflight|approve|…``, and others' commands (`COMMANDS`)."""

import json
import os
import platform
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import msgspec
import trio
import typer

from protocol_codecs.policy_manifest import MANIFEST
from protocol_codecs.printable import printable
from proxy.config.file_watcher import FileWatcher, Reloadable
from proxy.config.fleet import UnreadableSecret, kafka_properties
from proxy.config.hosting import check_hosting
from proxy.config.loader import ConfigError, load_config
from proxy.config.policy_explanation import assignor_notes, explain, note_on_moves, rule_reports, wave_reports
from proxy.config.policy_plan import LiveGroups, plan, plan_lines, summary, unused, unused_rules
from proxy.config.policy_source import load_policy_from, policy_of, policy_path
from proxy.config.schema import Config
from proxy.console.exit_codes import ExitCode
from proxy.console.output import NoColor, Output, OutputFormat, print_json
from proxy.control.commands import approve, pause, resume, rollback
from proxy.control.hook_caller import check_hook
from proxy.exporter.exporter import serve_exporter
from proxy.kubernetes.config_map_watch import ConfigMapWatch
from proxy.metrics.registry import software_version
from proxy.observability.admin_client import AdminAddress, AdminConfig, NoAnswerError, admin_url, fetch_groups
from proxy.observability.observability import replica_name
from proxy.observability.status_command import status
from proxy.preflight.background import BackgroundPreflight
from proxy.preflight.command import preflight
from proxy.preflight.judge import check_preflight
from proxy.runtime.log_setup import configure
from proxy.server.policy_reloader import PolicyReloader
from proxy.server.policy_watch import PolicyWatch
from proxy.server.process import StartError, check_fleet, make_fleet, make_translator, run_to_exit
from proxy.server.server import Server
from proxy.transport.tls_context import TlsFilesError, check_files
from proxy.workers.supervisor import Supervisor
from translation.policy.policy import Policy

_INVALID = (ConfigError, TlsFilesError, StartError, UnreadableSecret)
"""What a configuration is refused with."""

_ADMIN_S = 10.0
"""How long the admin port of a running proxy may take to answer."""

COMMANDS = "epochgate.commands"
"""Entry points of this group are called with the command line, to add their commands to it."""

app = typer.Typer(
    name="epochgate",
    help="Online migration proxy for Kafka consumer groups.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="Check the configuration file.", no_args_is_help=True)
policy_app = typer.Typer(
    help="Check the policy file, and preview what it would change.", no_args_is_help=True
)
app.command()(status)
app.command()(preflight)
for command in (approve, pause, resume, rollback):
    app.command()(command)
app.add_typer(config_app, name="config")
app.add_typer(policy_app, name="policy")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"epochgate {software_version()}")
        raise typer.Exit


@app.callback()
def _main(
    _show: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    _no_color: NoColor = False,
) -> None:
    pass


@app.command()
def version(output: Output = OutputFormat.TEXT) -> None:
    """Print the version. As JSON, also the version of Python."""
    if output is OutputFormat.JSON:
        print_json({"version": software_version(), "python": platform.python_version()})
    else:
        typer.echo(f"epochgate {software_version()}")


@app.command()
def run(
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="The configuration file (YAML).")
    ],
) -> None:
    """Run the proxy until SIGTERM or Ctrl-C.

    The first signal drains: clients' connections end one after another. The second one ends the process at once.
    """
    loaded, policy = _load(config)
    configure(loaded.log)
    serve = _supervise if loaded.workers > 1 else _serve
    run_to_exit(lambda: trio.run(serve, loaded, policy, policy_path(loaded, config), config.parent))


@app.command()
def exporter(
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="The configuration file (YAML).")
    ],
) -> None:
    """Serve the lag of all groups as metrics, under the names of common exporters, until SIGTERM or Ctrl-C.

    Run one for a cluster: with two, sums over groups would be twice as large. The exit code is 2 if the configuration
    is invalid or has no `exporter`.
    """
    try:
        loaded = load_config(config)
        check_fleet(loaded)
        if loaded.exporter is None or loaded.fleet is None:
            raise StartError("the configuration has no `exporter`")
        account = kafka_properties(loaded.fleet, os.environ)
    except _INVALID as error:
        raise _refused(error) from None
    configure(loaded.log)
    run_to_exit(lambda: trio.run(serve_exporter, loaded, account))


async def _serve(config: Config, policy: Policy, policy_at: Path | None, folder: Path) -> None:
    fleet = make_fleet(config, replica_name())
    server = Server(
        config,
        make_translator(config, policy, fleet),
        policy=policy,
        folder=folder,
        fleet=fleet,
    )
    await _run(server, server.set_policy, config, policy, policy_at, server.certificates)


async def _supervise(config: Config, policy: Policy, policy_at: Path | None, folder: Path) -> None:
    supervisor = Supervisor(config, policy, folder)
    await _run(supervisor, supervisor.set_policy, config, policy, policy_at, supervisor.certificates)


async def _run(
    process: Server | Supervisor,
    set_policy: Callable[[Policy], None],
    config: Config,
    policy: Policy,
    policy_at: Path | None,
    certificates: Sequence[Reloadable] = (),
) -> None:
    preflights = BackgroundPreflight(process, config, policy)

    def apply(policy: Policy) -> None:
        set_policy(policy)
        preflights.set_policy(policy)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.stop_at_signals)
        nursery.start_soon(preflights.run)
        reloadables: list[Reloadable] = list(certificates)
        if policy_at is not None:
            required = config.policy.manifest_required
            reloader = PolicyReloader(
                policy_at,
                apply,
                process.metrics,
                policy,
                manifest_required=required,
                check=partial(check_hosting, config),
            )
            nursery.start_soon(reloader.run)
            name, labels = config.policy.config_map, config.policy.config_maps
            if name is None and labels is None:
                reloadables.append(reloader)
            else:
                watch = PolicyWatch(name, policy_at, reloader, process.metrics, labels=labels or "")
                reloadables.append(watch)
                nursery.start_soon(ConfigMapWatch(name, watch, labels=labels or "").run)
        nursery.start_soon(FileWatcher(reloadables).run)
        await process.run(preflights)
        nursery.cancel_scope.cancel()


def _load(config: Path) -> tuple[Config, Policy]:
    try:
        return _checked(config)
    except _INVALID as error:
        raise _refused(error) from None


def _checked(config: Path) -> tuple[Config, Policy]:
    """The configuration and the policy that it names.

    :raises ConfigError: one of them is invalid.
    :raises TlsFilesError: a certificate or key that it names can't be used.
    :raises StartError: the Kafka client that ``fleet`` needs is not installed.
    :raises UnreadableSecret: a secret of ``fleet`` is not there.
    """
    loaded = load_config(config)
    check_fleet(loaded)
    control = None if loaded.control is None else loaded.control.tls
    check_files((*(listener.tls for listener in loaded.listeners), control), loaded.upstream.tls)
    check_hook(loaded.hook)
    check_preflight(loaded)
    policy = policy_of(loaded, config)
    check_hosting(loaded, policy)
    return loaded, policy


def _refused(error: Exception, code: ExitCode = ExitCode.USAGE) -> typer.Exit:
    """Print what is wrong to standard error. Returns the end of the command, for the caller to raise."""
    typer.echo(printable(f"error: {error}"), err=True)
    return typer.Exit(code)


@config_app.command("check")
def check_config(
    file: Annotated[Path, typer.Argument(help="The configuration file.")], output: Output = OutputFormat.TEXT
) -> None:
    """Check a configuration file, the TLS files, secrets and policy that it names, without starting anything.

    The exit code is 2 if one of them is invalid.
    """
    try:
        _checked(file)
    except _INVALID as error:
        if output is OutputFormat.JSON:
            print_json({"file": str(file), "valid": False, "error": str(error)})
        raise _refused(error) from None
    if output is OutputFormat.JSON:
        print_json({"file": str(file), "valid": True, "error": None})
    else:
        typer.echo(f"{file}: good")


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON schema of the configuration file."""
    typer.echo(json.dumps(msgspec.json.schema(Config), indent=2))


PolicyPath = Annotated[Path, typer.Argument(metavar="FILE", help="The policy file, or a directory of them.")]


@policy_app.command("check")
def check_policy(file: PolicyPath, output: Output = OutputFormat.TEXT) -> None:
    """Check a policy file or directory, and say what each of its rules does.

    The exit code is 2 if it is invalid.
    """
    try:
        policy, digest, left_out = load_policy_from(file)
    except ConfigError as error:
        if output is OutputFormat.JSON:
            print_json({"file": str(file), "valid": False, "error": str(error)})
        raise _refused(error) from None
    if output is OutputFormat.JSON:
        print_json(
            {
                "file": str(file),
                "valid": True,
                "error": None,
                "digest": digest,
                "left_out": left_out,
                "default": policy.default,
                "rules": rule_reports(policy),
                "waves": wave_reports(policy),
                "assignors_allowed": tuple(assignor_notes(policy)),
                "moves": note_on_moves(policy),
            }
        )
        return
    rules = "1 rule" if len(policy.rules) == 1 else f"{len(policy.rules)} rules"
    typer.echo(f"{file}: good, {rules}, default {policy.default}")
    if file.is_dir():
        typer.echo(f"digest {digest}")
    for name in left_out:
        typer.echo(printable(f"{name}: left out: generated, and not named by {MANIFEST}"))
    for line in explain(policy):
        typer.echo(printable(line))


@policy_app.command("plan")
def plan_policy(
    file: PolicyPath,
    admin: AdminAddress = None,
    config: AdminConfig = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Preview what a policy file would change in the live groups of a running proxy, and what it can't.

    Changes nothing. The exit code is 1 if no proxy answers, 2 if the file is invalid.
    """
    try:
        policy = load_policy_from(file).policy
        url = admin_url(admin, config)
        live = fetch_groups(url, LiveGroups, timeout_s=_ADMIN_S)
    except ConfigError as error:
        raise _refused(error) from None
    except NoAnswerError as error:
        raise _refused(error, ExitCode.FAILED) from None
    changes = plan(policy, live.groups)
    if output is OutputFormat.JSON:
        print_json(
            {
                "file": str(file),
                "admin": url,
                "changes": changes,
                "unused_rules": unused_rules(policy, live.groups),
                "groups": len(live.groups),
                "left_out": live.left_out,
            }
        )
        return
    of_all = summary(changes, len(live.groups), live.left_out)
    for line in (*plan_lines(changes), *unused(policy, live.groups), *of_all):
        typer.echo(printable(line))


@cache
def command_line() -> typer.Typer:
    """Every command: those of this module, and those that other packages add as entry points (:data:`COMMANDS`)."""
    for added in entry_points(group=COMMANDS):
        added.load()(app)
    return app


def main() -> None:
    """The console script."""
    try:
        command_line()()
    except Exception:  # noqa: BLE001  whoever started it must be able to tell a bug from a failure
        traceback.print_exc()
        sys.exit(ExitCode.INTERNAL_ERROR)


if __name__ == "__main__":
    main()
