"""What may happen thousands of times a second is said once a second: a flood must not fill the log."""

from collections import Counter

import trio

_SAY_EVERY_S = 1.0


class Seldom:
    """Decides for each kind of line whether it is said, and counts those that are not."""

    def __init__(self) -> None:
        self._said_at: dict[str, float] = {}
        self._unsaid: Counter[str] = Counter()

    def unsaid(self, kind: str) -> int | None:
        """None if nothing should be said now, else how many lines of this kind were left out since the last one."""
        now = trio.current_time()
        if now - self._said_at.get(kind, -_SAY_EVERY_S) < _SAY_EVERY_S:
            self._unsaid[kind] += 1
            return None
        self._said_at[kind] = now
        return self._unsaid.pop(kind, 0)
