"""What the tests and the bench of `epochgate preflight` share: groups by hand, and the command itself."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support import ROOT
from support.broker import Kafka
from support.raw_member import Offer, RawMember

SESSION_MS = 45_000
"""As long as a stock broker's for the new protocol."""
UNTIL_THE_END_MS = 1_800_000
"""Kafka's own `group.max.session.timeout.ms`: these members never heartbeat."""


class Groups:
    """Groups of classic members that have joined, and are nothing but members until the end."""

    def __init__(
        self, kafka: Kafka, stack: contextlib.ExitStack, session_timeout_ms: int = SESSION_MS
    ) -> None:
        self._kafka = kafka
        self._stack = stack
        self._session_timeout_ms = session_timeout_ms

    def add(
        self,
        group: str,
        topic: str,
        *,
        members: int = 1,
        partitions: int = 6,
        bootstrap: str | None = None,
        session_timeout_ms: int | None = None,
        **options: Any,
    ) -> list[RawMember]:
        """Have members join a group, all in one generation."""
        joined = [
            self._stack.enter_context(
                RawMember(
                    bootstrap or self._kafka.bootstrap,
                    group,
                    topic,
                    session_timeout_ms=session_timeout_ms or self._session_timeout_ms,
                    **options,
                )
            )
            for _ in range(members)
        ]
        first, *others = joined
        first.join()
        for other in others:
            other.send_join()
        if others:
            while first.heartbeat() == 0:
                pass
            first.join()
            for other in others:
                other.receive_join()
        for member in sorted(joined, key=lambda one: not one.leads):
            member.sync(partitions)
        return joined

    def of(self, protocol_type: str = "consumer", assignor: str = "range", **more: Any) -> Callable[..., Any]:
        """`add` with a client that says this of itself."""
        offer = Offer(protocol_type=protocol_type, assignor=assignor, **more)
        return lambda group, topic, **options: self.add(group, topic, offer=offer, **options)


def preflight(*arguments: object, folder: Path | None = None) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of `epochgate preflight --output json`."""
    command: Sequence[str] = [
        sys.executable,
        "-m",
        "proxy",
        "preflight",
        "--output",
        "json",
        *map(str, arguments),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=folder or ROOT
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def found(report: dict[str, Any], *, unknown: bool = False) -> dict[str, list[dict[str, Any]]]:
    """The findings by check."""
    by_check: dict[str, list[dict[str, Any]]] = {}
    for finding in report["findings"]:
        if finding["unknown"] is unknown:
            by_check.setdefault(finding["check"], []).append(finding)
    return by_check


def statuses(report: dict[str, Any]) -> dict[str, str]:
    """How each check ended."""
    return {one["check"]: one["status"] for one in report["checks"]}
