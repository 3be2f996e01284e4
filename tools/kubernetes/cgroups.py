"""Control groups: those of a node's pods lie below one of its own, so that several kubelets share a kernel."""

from collections.abc import Iterator
from pathlib import Path

from tools.kubernetes.machine import wait_until

_MOUNT = Path("/sys/fs/cgroup")
_OURS = "epochgate"


def root_of(node: str) -> str:
    """Return the group of a node, as its kubelet names it."""
    return f"/{_OURS}/{node}"


def make(node: str) -> None:
    """Make a node's group in every hierarchy."""
    for hierarchy in _hierarchies():
        (hierarchy / _OURS / node).mkdir(parents=True, exist_ok=True)
    cpus = _MOUNT / "cpuset"
    for file in ("cpuset.cpus", "cpuset.mems") if cpus.is_dir() else ():
        for group in (cpus / _OURS, cpus / _OURS / node):  # empty in a new one, and then nothing may enter it
            (group / file).write_text((group.parent / file).read_text())


def remove() -> None:
    """Remove all of them; processes that have just ended keep theirs for a moment."""
    wait_until(_removed, "the control groups are empty", 20)


def _removed() -> bool:
    for hierarchy in _hierarchies():
        top = hierarchy / _OURS
        for group in [*sorted(top.rglob("*/"), key=lambda at: -len(at.parts)), top]:
            try:
                group.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return False
    return True


def _hierarchies() -> Iterator[Path]:
    """Of cgroup v1 every controller's, and of v2 the only one."""
    if (_MOUNT / "cgroup.procs").exists():
        yield _MOUNT
    else:
        yield from (folder for folder in _MOUNT.iterdir() if (folder / "cgroup.procs").exists())
