"""Settings of the whole kernel that a kubelet changes without a word: kept at ``up``, restored at ``down``."""

import json
from pathlib import Path

_CHANGED = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
_SYS = Path("/proc/sys")


def remember(place: Path) -> None:
    """Write down what they are, unless an earlier ``up`` has."""
    if not place.exists():
        place.write_text(json.dumps({name: (_SYS / name).read_text().strip() for name in _CHANGED}))


def restore(place: Path) -> None:
    """Set what has changed to what it was."""
    if not place.exists():
        return
    for name, value in json.loads(place.read_text()).items():
        if (_SYS / name).read_text().strip() != value:
            (_SYS / name).write_text(value)
