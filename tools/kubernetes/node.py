"""A node: containerd, kubelet and kube-proxy on a machine, with a bridge for its pods."""

import json
import shlex
from pathlib import Path
from typing import Any

from tools.kubernetes import cgroups, network
from tools.kubernetes.binaries import binary
from tools.kubernetes.certificates import Authority
from tools.kubernetes.control import DNS, DOMAIN, SERVER
from tools.kubernetes.machine import Machine, wait_until
from tools.kubernetes.paths import RUN, ClusterError

PAUSE_IMAGE = "localhost/epochgate-pause:1"
_POD_MAC = "02:00:0a:f4:00:01"


class Node:
    """One node, counted from 1."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"node-{number}"
        self.address = network.node_address(number)
        self.folder = RUN / self.name
        self.machine = Machine(self.name, self.folder, self.address)

    def start(self, authority: Authority, nodes: int) -> None:
        """Start it; it is known to the API server some seconds later."""
        self.machine.start()
        cgroups.make(self.name)
        self._make_network(nodes)
        self._write("containerd.toml", _CONTAINERD.format(pause=PAUSE_IMAGE, cni=self.folder / "cni"))
        self._write("kubelet.yaml", json.dumps(self._kubelet(authority), indent=1))
        authority.kubeconfig(self.name, SERVER, self.folder / "kubeconfig")
        self.machine.spawn("containerd", "containerd", f"--config={self.folder}/containerd.toml")
        wait_until(self._containerd_answers, f"containerd of {self.name} answers")
        self.machine.spawn(
            "kubelet",
            str(binary("kubelet")),
            f"--kubeconfig={self.folder}/kubeconfig",
            f"--config={self.folder}/kubelet.yaml",
            f"--node-ip={self.address}",
            f"--hostname-override={self.name}",
        )
        self.machine.spawn(
            "kube-proxy",
            str(binary("kube-proxy")),
            f"--kubeconfig={RUN}/proxy.kubeconfig",
            f"--hostname-override={self.name}",
            "--proxy-mode=iptables",
            f"--cluster-cidr={network.PODS}",
            "--iptables-localhost-nodeports=false",
            # The size of the connection table is the whole kernel's.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        )

    def enforce_policies(self) -> None:
        """Start what enforces NetworkPolicies, which the pods' bridge does not; the API server has to know the node."""
        self.machine.spawn(
            "network-policies",
            str(binary("network-policies")),
            f"--kubeconfig={RUN}/network-policies.kubeconfig",
            f"--node={self.name}",
            f"--services={network.SERVICES}",
        )

    def import_images(self, archive: Path) -> None:
        """Take in the images of an archive that podman saved."""
        self.machine.run(f"ctr --namespace k8s.io images import {shlex.quote(str(archive))}")

    def _containerd_answers(self) -> bool:
        try:
            self.machine.run("ctr version")
        except ClusterError:
            return False
        return True

    def _make_network(self, nodes: int) -> None:
        pods = network.pod_range(self.number)
        gateway = pods.replace(".0/24", ".1/24")
        # A fixed address: otherwise the bridge takes its lowest port's and changes it when that pod goes, and then all
        # pods lose their gateway for half a minute.
        commands = [
            f"ip link add cni0 address {_POD_MAC} type bridge",
            f"ip addr add {gateway} dev cni0",
            "ip link set cni0 up",
            "sysctl -qw net.bridge.bridge-nf-call-iptables=1",
            # Pods see each other's own addresses; this machine sees the node's.
            f"iptables -w -t nat -A POSTROUTING -s {network.PODS} ! -d {network.PODS} -j MASQUERADE",
        ]
        others = (number for number in range(1, nodes + 1) if number != self.number)
        commands += [f"ip route add {network.pod_range(n)} via {network.node_address(n)}" for n in others]
        self.machine.run("\n".join(commands))
        (self.folder / "cni").mkdir(exist_ok=True)
        self._write("cni/10-pods.conflist", json.dumps(_cni(pods), indent=1))

    def _write(self, file: str, text: str) -> None:
        (self.folder / file).write_text(text)

    def _kubelet(self, authority: Authority) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(authority.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(authority.path(f"{self.name}.crt")),
            "tlsPrivateKeyFile": str(authority.path(f"{self.name}.key")),
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroups.root_of(self.name),
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDomain": DOMAIN,
            "clusterDNS": [DNS],
            "resolvConf": "",
            "evictionHard": {
                "memory.available": "200Mi",
                "nodefs.available": "2%",
                "imagefs.available": "2%",
            },
            "imageGCHighThresholdPercent": 100,  # nothing here could be pulled again
            "nodeStatusUpdateFrequency": "4s",
        }


_CONTAINERD = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true  # where root may not lower it
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{cni}"
"""


def _cni(pods: str) -> dict[str, Any]:
    addresses = {"type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}
