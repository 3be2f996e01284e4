"""Reads the configuration file again, and has all of a change done or refused; when a refused one is tried again.

:mod:`proxy.runtime.file_watcher` notices that the file has changed, or a SIGHUP. A configuration that is invalid, needs
a restart or can't be put in force is refused: the one before stays, and log and metrics report it.
"""

import math
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

import structlog
import trio

from proxy.config.loader import ConfigError, ReadConfig, read_config
from proxy.config.schema import Config
from proxy.metrics.registry import Metrics
from proxy.runtime.computing_thread import InThread, in_thread

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.config")

RETRY_S = 10.0
"""Seconds between two tries of a configuration that can't be read, or not be put in force though it needs no restart.

What it names may come later than the file: a Secret that is mounted beside it, a broker.
"""


Reconfigure = Callable[[Config], Awaitable[None]]
"""Puts a configuration in force of which no change needs a restart. Raises ConfigError if it can't be had."""


class ConfigReloader:
    """Keeps a process at what ``file`` says. ``in_force`` is the configuration that it was started with.

    ``check`` returns what is wrong with the files that a configuration names.
    """

    def __init__(
        self,
        file: Path,
        in_force: Config,
        reconfigure: Reconfigure,
        metrics: Metrics,
        *,
        check: Callable[[ReadConfig], Iterable[str]],
        run_in_thread: InThread = in_thread,
    ) -> None:
        self._file = file
        self.in_force = in_force
        self._reconfigure = reconfigure
        self._metrics = metrics
        self._check = check
        self._in_thread = run_in_thread
        self._wanted = trio.Event()
        self._why = ""
        self._problems: list[str] = []
        """Why the file was refused the last time; none if it was not."""
        self._retries = False

    @property
    def files(self) -> tuple[Path, ...]:
        """The configuration file; see :class:`proxy.runtime.file_watcher.Reloadable`."""
        return (self._file,)

    def reload(self, why: str) -> None:
        """Have the file read, and what it changes done. ``why`` goes to the log."""
        self._why, self._problems = why, []
        self._wanted.set()

    async def run(self) -> None:
        """Read the file after each :meth:`reload`, and again while it can't be put in force, until cancelled."""
        while True:
            with trio.move_on_after(RETRY_S if self._retries else math.inf):
                await self._wanted.wait()
            self._wanted = trio.Event()
            await self._reload(self._why)

    async def _reload(self, why: str) -> None:
        from proxy.reload.config_plan import plan_of  # noqa: PLC0415 - many processes never read their file again

        self._retries = True  # what keeps it from being read may show in nothing that is watched
        try:
            read = await self._in_thread(partial(read_config, self._file))
            self._retries = False
            if read.problems:
                raise ConfigError(*read.problems)
            config, plan = read.config, plan_of(self.in_force, read.config)
            if plan.restarts:
                raise ConfigError(*map(str, plan.restarts))
            self._retries = True
            if plan.steps:
                if problems := await self._in_thread(lambda: list(self._check(read))):
                    raise ConfigError(*problems)
                await self._reconfigure(config)
        except ConfigError as error:
            self._refuse(why, str(ConfigError(*error.problems)).splitlines())  # not all, if there are many
            return
        except Exception as error:  # noqa: BLE001  a bug, or a file that no check expects: it ends nothing
            self._metrics.internal_errors.labels("upkeep").inc()
            self._refuse(why, [f"an unexpected error: {type(error).__name__}: {error}"])
            return
        self._metrics.config_is_current.set(1)
        self.in_force, self._retries, self._problems = config, False, []
        if not plan.steps:
            _log.info("configuration read, it changes nothing", why=why)
            return
        self._metrics.config_reloads.labels("applied").inc()
        _log.info("configuration applied", why=why, steps=[str(step) for step in plan.steps])

    def _refuse(self, why: str, problems: list[str]) -> None:
        self._metrics.config_is_current.set(0)
        if problems == self._problems:
            return
        self._problems = problems
        self._metrics.config_reloads.labels("refused").inc()
        _log.error("configuration refused, the one before stays", why=why, problems=problems)
