"""The bridge that joins the machines of a cluster to this one, and the addresses of all."""

import json
import subprocess
from pathlib import Path

from tools.kubernetes.paths import ClusterError

BRIDGE = "epochgate0"
_MAC = "02:00:c6:12:4d:01"
"""Fixed: otherwise the bridge takes its lowest port's, and changes it when that machine goes."""
_PREFIX = "198.18.77"  # of the range for tests of network devices (RFC 2544), which nobody routes
GATEWAY = f"{_PREFIX}.1"
"""This machine as the nodes and pods see it: servers for them listen here."""
CONTROL = f"{_PREFIX}.2"
PODS = "10.244.0.0/16"
SERVICES = "10.96.0.0/16"
FIRST_SERVICE = "10.96.0.1"


def node_address(number: int) -> str:
    """Return the address of a node, counted from 1."""
    return f"{_PREFIX}.{10 + number}"


def pod_range(number: int) -> str:
    """Return the addresses of a node's pods."""
    return f"10.244.{number}.0/24"


def owner() -> Path | None:
    """Return the folder of the cluster that has the bridge, or None if there is no bridge."""
    found = _links(BRIDGE)
    return Path(found[0].get("ifalias", "/unknown")) if found else None


def make_bridge(folder: Path) -> None:
    """Make the bridge; its alias names the cluster's folder, so that others find whose it is."""
    ip("link", "add", BRIDGE, "address", _MAC, "type", "bridge")
    ip("link", "set", BRIDGE, "alias", str(folder), "up")
    ip("addr", "add", f"{GATEWAY}/24", "dev", BRIDGE)


def remove_bridge() -> None:
    """Remove the bridge, if there is one, and its ports, which would go a moment after their machines."""
    if owner() is None:
        return
    for port in _links("master", BRIDGE):
        subprocess.run(
            ["ip", "link", "delete", port["ifname"]], check=False, capture_output=True, env=_ENVIRONMENT
        )
    ip("link", "delete", BRIDGE)


def join(pid: int, address: str) -> None:
    """Give the machine with this process 1 an ``eth0`` on the bridge."""
    outside = "eg" + address.rsplit(".", 1)[1]
    peer = ["peer", "name", "eth0", "netns", str(pid)]
    ip("link", "add", outside, "type", "veth", *peer)
    ip("link", "set", outside, "master", BRIDGE, "up")


def ip(*words: str) -> None:
    """Run ip on this machine."""
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True, env=_ENVIRONMENT)
    if done.returncode:
        raise ClusterError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _links(*which: str) -> list[dict[str, str]]:
    done = subprocess.run(
        ["ip", "-j", "link", "show", *which], check=False, capture_output=True, text=True, env=_ENVIRONMENT
    )
    return json.loads(done.stdout) if done.returncode == 0 else []


_ENVIRONMENT = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"}
