"""``epochgate run``: the proxy, which files are reloaded (configuration, policy, certificates, passwords), and
preflight beside it.
"""

import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import proxy.runtime.without_rich  # noqa: F401  # isort: skip
import structlog
import trio
import typer

from proxy import VERSION
from proxy.cli.configuration import load, problems_of_files
from proxy.config.hosting import check_hosting
from proxy.config.policy_source import policy_path
from proxy.config.schema import ALL_INTERFACES, Admin, Config
from proxy.groups.observability import replica_name
from proxy.metrics.periodic import keep_running
from proxy.metrics.registry import Metrics
from proxy.reload.config_reloader import ConfigReloader
from proxy.reload.policy_reloader import PolicyReloader
from proxy.runtime.file_watcher import FileWatcher, Reloadable, Signature, signature
from proxy.runtime.log_setup import configure
from proxy.server.process import make_fleet, make_translator, run_to_exit
from proxy.server.server import Server
from translation.policy.policy import Policy

if TYPE_CHECKING:
    from proxy.preflight.background import BackgroundPreflight
    from proxy.workers.supervisor import Supervisor


_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy")


def run(
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="The configuration file (YAML).")
    ],
) -> None:
    """Run the proxy until SIGTERM or Ctrl-C.

    The first signal drains: clients' connections end one after another. The second one ends the process at once.
    """
    as_read = signature((config,))  # it may change until all ports are open
    loaded, policy = load(config)
    configure(loaded.log)
    _log.info(
        "starting",
        version=VERSION,
        config=str(config.absolute()),
        policy=loaded.policy.file,
        replica=replica_name(),
        workers=loaded.workers,
    )
    serve = _supervise if loaded.workers > 1 else _serve
    run_to_exit(lambda: trio.run(serve, loaded, policy, config, as_read))


class _Start(trio.TaskStatus[None]):
    """Logs that clients can connect, and lets preflight begin."""

    def __init__(self, preflights: "BackgroundPreflight | None") -> None:
        self._preflights = preflights

    def started(self, value: None = None) -> None:
        _log.info("ready")
        if self._preflights is not None:
            self._preflights.started(value)


def _page_url(admin: Admin, port: int) -> str:
    """Where a browser finds the page. An address that is all addresses is replaced by the machine's name."""
    return f"{admin.url(port, socket.gethostname() if admin.bind in ALL_INTERFACES else None)}/"


async def _serve(config: Config, policy: Policy, file: Path, as_read: Signature) -> None:
    metrics = Metrics()
    fleet = make_fleet(config, replica_name(), metrics)
    server = Server(
        config,
        make_translator(config, policy, fleet),
        metrics=metrics,
        policy=policy,
        folder=file.parent,
        fleet=fleet,
    )
    await _run(server, config, policy, file, as_read)


async def _supervise(config: Config, policy: Policy, file: Path, as_read: Signature) -> None:
    from proxy.workers.supervisor import Supervisor  # noqa: PLC0415 - most proxies are one process

    await _run(Supervisor(config, policy, file.parent), config, policy, file, as_read)


async def _run(
    process: "Server | Supervisor", config: Config, policy: Policy, file: Path, as_read: Signature
) -> None:
    preflights = preflights_of(process, config, policy)

    def apply(policy: Policy) -> None:
        process.set_policy(policy)
        if preflights is not None:
            preflights.set_policy(policy)

    async def reconfigure(config: Config) -> None:
        await process.reconfigure(config)
        if preflights is not None:
            preflights.set_config(config)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.stop_at_signals)
        if preflights is not None:
            nursery.start_soon(preflights.run)
        settings = ConfigReloader(file, config, reconfigure, process.metrics, check=problems_of_files)
        nursery.start_soon(keep_running, settings.run, process.metrics)
        reloadables: list[Reloadable] = [settings]
        if (policy_at := policy_path(config, file)) is not None:
            required = config.policy.manifest_required
            reloader = PolicyReloader(
                policy_at,
                apply,
                process.metrics,
                policy,
                manifest_required=required,
                check=partial(check_hosting, config),
            )
            nursery.start_soon(keep_running, reloader.run, process.metrics)
            name, labels = config.policy.config_map, config.policy.config_maps
            if name is None and labels is None:
                reloadables.append(reloader)
            else:
                from proxy.reload.config_map_watch import ConfigMapWatch  # noqa: PLC0415 - only in a pod
                from proxy.reload.policy_watch import PolicyWatch  # noqa: PLC0415

                watch = PolicyWatch(name, policy_at, reloader, process.metrics, labels=labels or "")
                reloadables.append(watch)
                nursery.start_soon(
                    keep_running, ConfigMapWatch(name, watch, labels=labels or "").run, process.metrics
                )
        watcher = FileWatcher(lambda: [*reloadables, *process.reloadables], {settings: as_read})
        nursery.start_soon(keep_running, watcher.run, process.metrics)
        if config.admin.exposure is not None:
            _log.warning("admin port exposed", bind=config.admin.bind, reason=config.admin.exposure)
        _log.info("status page", url=_page_url(config.admin, process.ports.admin))
        await process.run(_Start(preflights))
        nursery.cancel_scope.cancel()


def preflights_of(
    process: "Server | Supervisor", config: Config, policy: Policy
) -> "BackgroundPreflight | None":
    """Make the preflights beside the proxy; None if the configuration switches them off."""
    if not config.preflight.enabled:
        return None
    from proxy.preflight.background import BackgroundPreflight  # noqa: PLC0415 - only where its key is set

    return BackgroundPreflight(process, config, policy)
