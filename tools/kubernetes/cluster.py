"""A cluster as a whole: up, down, and what it is doing."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from tools.image import packages
from tools.image.podman import podman
from tools.kubernetes import bare, binaries, cgroups, control, kernel, network
from tools.kubernetes.kubectl import kubectl, succeeds
from tools.kubernetes.machine import Machine, wait_until
from tools.kubernetes.node import PAUSE_IMAGE, Node
from tools.kubernetes.paths import KUBECONFIG, RUN, ClusterError

PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ipset": "ipset",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "podman": "podman",
}
"""What a cluster starts, by the program that shows that it is there; podman is what hands it the images."""
_STATE = RUN / "cluster.json"
_KERNEL = RUN / "kernel.json"
_LOGS = RUN.parent / "logs"


def up(nodes: int) -> None:
    """Start a cluster of so many nodes, and wait until they are ready for pods.

    :raises ClusterError: what it needs is not there, or another one is up.
    """
    if os.geteuid() != 0:
        raise ClusterError("namespaces with devices and mounts of their own need root")
    if (other := network.owner()) not in (None, RUN):
        raise ClusterError(
            f"a cluster is up already: that of {other} (python -m tools.kubernetes down there)"
        )
    if (machines := _machines()) and all(machine.pid() for machine in machines):
        print(f"a cluster of {len(machines) - 1} node(s) is up already: KUBECONFIG={KUBECONFIG}")
        return
    packages.install(PACKAGES)
    binaries.build()
    began = time.monotonic()
    print(f"== starting a cluster of {nodes} node(s)", flush=True)
    down()  # what an earlier one may have left
    RUN.mkdir(parents=True)
    network.make_bridge(RUN)
    try:
        kernel.remember(_KERNEL)
        _STATE.write_text(json.dumps({"nodes": nodes}))
        _start(nodes)
    except BaseException:
        down(keep_logs=True)
        raise
    print(f"== ready in {time.monotonic() - began:.1f} s: KUBECONFIG={KUBECONFIG}", flush=True)


def down(*, keep_logs: bool = False) -> None:
    """End what :func:`up` started and restore what it changed; does nothing if there is nothing."""
    for machine in _machines():
        machine.stop()
    if network.owner() in (None, RUN):  # there is one on a machine, which may be another clone's
        network.remove_bridge()
        cgroups.remove()
        kernel.restore(_KERNEL)
    if keep_logs and RUN.exists():
        shutil.rmtree(_LOGS, ignore_errors=True)
        for folder in RUN.glob("*/log"):
            shutil.copytree(folder, _LOGS / folder.parent.name)
        print(f"logs: {_LOGS}", flush=True)
    shutil.rmtree(RUN, ignore_errors=True)
    if RUN.exists():
        shutil.rmtree(RUN)  # once more, aloud: a process that has just ended may have written into it


def import_images(names: Sequence[str]) -> None:
    """Hand images of podman's to every node."""
    archive = RUN / "images.tar"
    archive.unlink(missing_ok=True)
    podman("save", "--quiet", "--multi-image-archive", f"--output={archive}", *names)
    for node in _nodes():
        node.import_images(archive)
    archive.unlink()


def status() -> int:
    """Print the nodes and what the cluster takes; return 1 if none is up."""
    if not _machines():
        print("no cluster is up")
        return 1
    for machine in _machines():
        processes = machine.processes()
        print(
            f"{machine.name} at {machine.address}: {len(processes)} processes, {_memory_mb(processes):.0f} MB"
        )
    disk = sum(file.lstat().st_blocks * 512 for file in RUN.rglob("*"))
    print(f"on disk: {disk / 1e6:.0f} MB in {RUN}")
    print(kubectl("get", "nodes", "--output=wide"))
    return 0


def _start(nodes: int) -> None:
    authority = control.make_certificates(nodes)
    control.start(authority)
    for number in range(1, nodes + 1):
        Node(number).start(authority, nodes)
    bare.make(PAUSE_IMAGE, ["pause"])  # what holds a machine's namespaces holds a pod's too
    import_images([PAUSE_IMAGE])
    names = [node.name for node in _nodes()]
    wait_until(lambda: succeeds("get", "node", *names), "the nodes are known")
    for node in _nodes():
        node.enforce_policies()
    kubectl("wait", "--for=condition=Ready", *(f"node/{name}" for name in names), "--timeout=60s")
    control.wait_ready()


def _machines() -> list[Machine]:
    return [control.machine(), *(node.machine for node in _nodes())] if _STATE.exists() else []


def _nodes() -> list[Node]:
    if not _STATE.exists():
        return []
    return [Node(number) for number in range(1, json.loads(_STATE.read_text())["nodes"] + 1)]


def _memory_mb(processes: Sequence[int]) -> float:
    """Return the memory of processes, with what several share divided among them."""
    total = 0
    for pid in processes:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue  # it has ended
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1e3
