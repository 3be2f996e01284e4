"""How long a process of librdkafka that has ended is left alone before the next one is started."""

FIRST_S = 0.5
LONGEST_S = 8.0
"""While the member log is away, calls on new connections are refused, and clients have sessions of 10 s and more."""
_LASTED_S = 60.0
"""After a process that was used for so long the next pause is the first one again."""


class Pauses:
    """Doubles the pause from one process to the next."""

    def __init__(self) -> None:
        self._pause_s = FIRST_S
        self._at_least_s = 0.0
        self._began = 0.0

    def began(self, now: float) -> None:
        """A process is used from now on."""
        self._began = now

    def at_least(self, pause_s: float) -> None:
        """The next pause is not shorter than this."""
        self._at_least_s = pause_s

    def next(self, now: float) -> float:
        """The pause before the next process, in seconds."""
        if now - self._began >= _LASTED_S:
            self._pause_s = FIRST_S
        self._began = now
        pause_s = max(self._pause_s, self._at_least_s)
        self._pause_s, self._at_least_s = min(2 * self._pause_s, LONGEST_S), 0.0
        return pause_s
