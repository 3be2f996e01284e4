"""Reloads the policy, without dropping a connection.

:mod:`proxy.config.file_watcher` notices that its file has changed, or a SIGHUP; :mod:`proxy.server.policy_watch` that
its ConfigMap has. A policy that can't be used is refused: the previous one stays in force, and log and metrics report
it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from proxy.config.file_watcher import POLL_INTERVAL_S, FileWatcher
from proxy.config.loader import ConfigError
from proxy.config.policy_source import LoadedPolicy, load_policy_from, policy_of_files
from proxy.metrics.registry import Metrics
from translation.policy.policy import Policy

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.policy")

__all__ = ["POLL_INTERVAL_S", "PolicyReloader"]


class PolicyReloader:
    """Watches one policy file, or a directory of them. ``apply`` gets each new policy that is valid.

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
    ) -> None:
        self._file = file
        self._check = check
        self._manifest_required = manifest_required
        self._apply = apply
        self._metrics = metrics
        self._in_force = in_force
        metrics.policy_version.set(1)

    @property
    def files(self) -> tuple[Path, ...]:
        """The policy file or directory; see :class:`proxy.config.file_watcher.Reloadable`."""
        return (self._file,)

    async def run(self) -> None:
        """Watch until cancelled."""
        await FileWatcher((self,)).run()

    def reload(self, why: str) -> None:
        """Read the file and apply its policy, or refuse it. ``why`` goes to the log."""
        self._take(self._load, why, again=True)

    def _load(self) -> LoadedPolicy:
        return load_policy_from(self._file, manifest_required=self._manifest_required)

    def of_files(self, source: str, files: Mapping[str, bytes]) -> LoadedPolicy:
        """The policy that these files are together (:func:`~proxy.config.policy_source.policy_of_files`).

        :raises ConfigError: they are none.
        """
        return policy_of_files(source, files, manifest_required=self._manifest_required)

    def take(self, load: Callable[[], LoadedPolicy], why: str) -> None:
        """Apply the policy that ``load`` returns if it is not in force yet; refuse it if that raises ConfigError."""
        self._take(load, why, again=False)

    def _take(self, load: Callable[[], LoadedPolicy], why: str, *, again: bool) -> None:
        try:
            policy, digest, left_out = load()
            self._check(policy)
        except ConfigError as error:
            self._metrics.policy_reloads.labels("refused").inc()
            self._metrics.policy_is_current.set(0)
            _log.error("policy refused, the one before stays", why=why, reason=str(error))
            return
        self._metrics.policy_is_current.set(1)
        if policy == self._in_force and not again:
            return
        self._in_force = policy
        self._apply(policy)
        self._metrics.policy_reloads.labels("applied").inc()
        self._metrics.policy_version.inc()
        _log.info(
            "policy applied",
            why=why,
            rules=len(policy.rules),
            default=str(policy.default),
            digest=digest,
            left_out=list(left_out),
        )
