"""Reloads the policy, without dropping a connection; one that can't be used is refused, and the one before stays.

:mod:`proxy.runtime.file_watcher` notices that its file has changed, or a SIGHUP; :mod:`proxy.reload.policy_watch` that
its ConfigMap has. A policy that can't be used is refused: the previous one stays in force, and log and metrics report
it.

A policy of many rules takes seconds to be read and compiled. A thread does that, and what it returns is put in force at
once.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import structlog
import trio

from proxy.config.loader import ConfigError
from proxy.config.policy_source import LoadedPolicy, load_policy_from, policy_of_files
from proxy.metrics.registry import Metrics
from proxy.runtime.computing_thread import InThread, in_thread
from translation.policy.policy import Policy

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.policy")


class PolicyReloader:
    """Loads one policy file, or a directory of them, when it is to. ``apply`` gets each new policy that is valid.

    ``check`` raises ConfigError for a policy that this process can't have.
    """

    def __init__(
        self,
        file: Path,
        apply: Callable[[Policy], None],
        metrics: Metrics,
        in_force: Policy | None = None,
        *,
        manifest_required: bool = False,
        check: Callable[[Policy], None] = lambda _: None,
        run_in_thread: InThread = in_thread,
    ) -> None:
        self._file = file
        self._check = check
        self._manifest_required = manifest_required
        self._apply = apply
        self._metrics = metrics
        self._in_force = in_force
        self._in_thread = run_in_thread
        self._wanted = trio.Event()
        self._load_next, self._why, self._again = self._load, "", False
        metrics.policy_version.set(1)

    @property
    def files(self) -> tuple[Path, ...]:
        """The policy file or directory; see :class:`proxy.runtime.file_watcher.Reloadable`."""
        return (self._file,)

    async def run(self) -> None:
        """Load and apply, as often as :meth:`reload` or :meth:`take` were called, until cancelled.

        Of several calls while a policy is being loaded the last one counts.
        """
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            load, why, again, self._again = self._load_next, self._why, self._again, False
            await self._take(load, why, again=again)

    def reload(self, why: str) -> None:
        """Have the file read and its policy applied, or refused. ``why`` goes to the log."""
        self._again = True
        self.take(self._load, why)

    def _load(self) -> LoadedPolicy:
        return load_policy_from(self._file, manifest_required=self._manifest_required)

    def of_files(self, source: str, files: Mapping[str, bytes]) -> LoadedPolicy:
        """The policy that these files are together (:func:`~proxy.config.policy_source.policy_of_files`).

        :raises ConfigError: they are none.
        """
        return policy_of_files(source, files, manifest_required=self._manifest_required)

    def take(self, load: Callable[[], LoadedPolicy], why: str) -> None:
        """Have the policy applied that ``load`` returns in a thread, if it is not in force yet.

        It is refused if ``load`` raises ConfigError.
        """
        self._load_next, self._why = load, why
        self._wanted.set()

    async def _take(self, load: Callable[[], LoadedPolicy], why: str, *, again: bool) -> None:
        try:
            loaded, is_in_force = await self._in_thread(partial(self._prepared, load))
        except ConfigError as error:
            self._metrics.policy_reloads.labels("refused").inc()
            self._metrics.policy_refusal = str(error)
            self._metrics.policy_is_current.set(0)
            _log.error("policy refused, the one before stays", why=why, reason=str(error))
            return
        self._metrics.policy_is_current.set(1)
        if is_in_force and not again:
            return
        self._in_force = loaded.policy
        self._apply(loaded.policy)
        self._metrics.policy_reloads.labels("applied").inc()
        self._metrics.policy_version.inc()
        _log.info(
            "policy applied",
            why=why,
            rules=len(loaded.policy.rules),
            default=str(loaded.policy.default),
            digest=loaded.digest,
            left_out=list(loaded.left_out),
        )

    def _prepared(self, load: Callable[[], LoadedPolicy]) -> tuple[LoadedPolicy, bool]:
        """What the thread does. Also returns whether the policy is in force already."""
        loaded = load()
        self._check(loaded.policy)
        loaded.policy.prepare(self._in_force)
        return loaded, loaded.policy == self._in_force
