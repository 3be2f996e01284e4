"""How long Heartbeats wait in the proxy for their answers: never so long that a member might lose its session by it.

A member is served in turns, one call after another. Whoever has READ on the group can send a call in its name, on a
connection that reads nothing; the broker's answer on that connection then comes late or never, and the member's own
Heartbeats must not wait for it.
"""

from typing import Any

from protocol_codecs import ApiKey
from tests.simulation.standing import Standing
from tests.simulation.wire import Ask

WITHIN_MS = 6_000
"""The shortest session timeout of the plans. Without stalled connections no Heartbeat waits for more than 3,600 ms."""


class Promptness:
    """Times the Heartbeats that a proxy has read and not answered yet."""

    def __init__(self) -> None:
        self._asked_ms: dict[tuple[Any, int], int] = {}

    def asked(self, standing: Standing, ask: Ask, now_ms: int) -> None:
        """A proxy has read a call."""
        if ask.api_key == ApiKey.HEARTBEAT:
            self._asked_ms[standing.client, ask.number] = now_ms

    def why_late(self, standing: Standing, ask: Ask, now_ms: int) -> str | None:
        """A call was answered, or its client waits no more: what is wrong if that took too long, else None.

        How long a broken connection, a process that stands still or a coordinator that fails over takes is no matter.
        Nor is a classic member's Heartbeat, which waits at the broker behind a SyncGroup on the same connection.
        """
        asked_ms = self._asked_ms.pop((standing.client, ask.number), None)
        if (
            standing.classic
            or asked_ms is None
            or now_ms - asked_ms <= WITHIN_MS
            or standing.broken_ms >= asked_ms
        ):
            return None
        return f"a Heartbeat of {standing.client} waited {now_ms - asked_ms:,} ms in the proxy"
