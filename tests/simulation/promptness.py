"""Checks how long Heartbeats wait in the proxy: never so long that a member might lose its session.

The calls of a member are served one at a time. Whoever has READ on the group can send a call in its name, on a
connection that it does not read; the broker's answer on that connection then comes late or never, and the member's own
Heartbeats must not wait for it.
"""

from typing import Any

from protocol_codecs import ApiKey
from tests.simulation.standing import Standing
from tests.simulation.wire import Ask

WITHIN_MS = 6_000
"""The shortest session timeout of the plans. Without stalled connections no Heartbeat waits for more than 3,600 ms."""


class Promptness:
    """Measures Heartbeats that a proxy has read and not answered yet."""

    def __init__(self) -> None:
        self._asked_ms: dict[tuple[Any, int], int] = {}

    def asked(self, standing: Standing, ask: Ask, now_ms: int) -> None:
        """Record that a proxy has read a call."""
        if ask.api_key == ApiKey.HEARTBEAT:
            self._asked_ms[standing.client, ask.number] = now_ms

    def why_late(self, standing: Standing, ask: Ask, now_ms: int) -> str | None:
        """Return what is wrong if a call that ended took too long, else None.

        Broken connections, paused processes and failovers excuse any delay. So does a SyncGroup in front of a classic
        member's Heartbeat, which waits at the broker behind it on the same connection. A process whose instance id
        another one has by now has no session to lose.
        """
        asked_ms = self._asked_ms.pop((standing.client, ask.number), None)
        if (
            standing.classic
            or standing.replaced
            or asked_ms is None
            or now_ms - asked_ms <= WITHIN_MS
            or standing.broken_ms >= asked_ms
        ):
            return None
        return f"a Heartbeat of {standing.client} waited {now_ms - asked_ms:,} ms in the proxy"
