"""Writes down what was broken when (`faults.jsonl`), and when the machine itself stood still."""

import json
import threading
import time
from pathlib import Path

STALL_S = 2.0
"""If a short sleep ends this much too late, this process had no core, and neither had the clients."""


class FaultLog:
    """A fault is noted when it begins, and its victim as `healed`; stalls are noted from a thread of its own."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("w")
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch_for_stalls, name="stalls")
        self.last = time.monotonic()
        """When something was noted for the last time."""
        self._watching.start()

    def note(self, fault: str, victim: str, **more: object) -> None:
        """Write one line; `more` may have another `mono`, in nanoseconds, if it was not now."""
        self.last = time.monotonic()
        line = {
            "event": str(fault),
            "victim": victim,
            "mono": time.monotonic_ns(),
            "time": time.time_ns(),
            **more,
        }
        with self._writing:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def close(self) -> None:
        """End the thread."""
        self._over.set()
        self._watching.join()
        self._file.close()

    def _watch_for_stalls(self) -> None:
        """Record when the machine stops scheduling us, because sessions then end as they do by a fault."""
        before = time.monotonic_ns()
        while not self._over.wait(0.1):
            now = time.monotonic_ns()
            if now - before > STALL_S * 1e9:
                self.note("stall", "machine", mono=before)
                self.note("healed", "machine")
            before = now
