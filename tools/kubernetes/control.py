"""The control plane: etcd, the API server, its controllers, the scheduler and the cluster's DNS, on one machine."""

import shutil

from tools.kubernetes import network
from tools.kubernetes.binaries import binary
from tools.kubernetes.certificates import Authority
from tools.kubernetes.kubectl import kubectl, succeeds
from tools.kubernetes.machine import Machine, wait_until
from tools.kubernetes.paths import KUBECONFIG, RUN

SERVER = f"https://{network.CONTROL}:6443"
DOMAIN = "cluster.local"
DNS = network.CONTROL
_ETCD = "http://127.0.0.1:2379"
_ISSUER = f"https://kubernetes.default.svc.{DOMAIN}"
_AGGREGATOR = "front-proxy-client"
"""Who the API server is to the API servers that extend it."""
_COREFILE = f""". {{
  bind {DNS}
  errors
  ready 127.0.0.1:8181
  kubernetes {DOMAIN} {{
    kubeconfig {RUN}/coredns.kubeconfig
  }}
  cache 5
}}
"""


def machine() -> Machine:
    """Return the machine of the control plane."""
    return Machine("control", RUN / "control", network.CONTROL)


def make_certificates(nodes: int) -> Authority:
    """Make the authority, and the certificates of the control plane and of so many nodes."""
    shutil.rmtree(RUN / "pki", ignore_errors=True)
    authority = Authority(RUN / "pki")
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{DOMAIN}"]
    addresses = [network.CONTROL, network.FIRST_SERVICE, "127.0.0.1"]
    authority.sign("apiserver", "kube-apiserver", names=[*names, *addresses])
    authority.sign("apiserver-to-kubelet", "kube-apiserver", ["system:masters"])
    authority.sign(_AGGREGATOR, _AGGREGATOR)
    authority.sign("admin", "admin", ["system:masters"])
    authority.sign("controller-manager", "system:kube-controller-manager")
    authority.sign("scheduler", "system:kube-scheduler")
    authority.sign("proxy", "system:kube-proxy")
    authority.sign("coredns", "system:coredns")
    authority.sign("network-policies", "system:network-policies")
    for number in range(1, nodes + 1):
        name = f"node-{number}"
        authority.sign(name, f"system:node:{name}", ["system:nodes"], [name, network.node_address(number)])
    authority.key_pair("service-accounts")
    for user in ("controller-manager", "scheduler", "proxy", "coredns", "network-policies"):
        authority.kubeconfig(user, SERVER, RUN / f"{user}.kubeconfig")
    authority.kubeconfig("admin", SERVER, KUBECONFIG)
    return authority


def start(authority: Authority) -> None:
    """Start everything; the API server answers when this returns."""
    control = machine()
    control.start()
    control.spawn(
        "etcd",
        str(binary("etcd")),
        "--data-dir=/var/lib/etcd",
        "--unsafe-no-fsync",  # the data end with the cluster
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--log-level=warn",
    )
    control.spawn("kube-apiserver", str(binary("kube-apiserver")), *_api_server(authority))
    wait_until(lambda: succeeds("get", "--raw", "/readyz"), "the API server is ready", 120)
    common = ["--leader-elect=false", "--bind-address=127.0.0.1"]
    control.spawn(
        "kube-controller-manager",
        str(binary("kube-controller-manager")),
        f"--kubeconfig={RUN}/controller-manager.kubeconfig",
        f"--service-account-private-key-file={authority.path('service-accounts.key')}",
        f"--root-ca-file={authority.certificate}",
        "--use-service-account-credentials",
        *common,
    )
    control.spawn(
        "kube-scheduler", str(binary("kube-scheduler")), f"--kubeconfig={RUN}/scheduler.kubeconfig", *common
    )
    _allow("system:coredns", "list,watch", "services,pods,namespaces,endpointslices.discovery.k8s.io")
    _allow(
        "system:network-policies", "get,list,watch", "pods,namespaces,nodes,networkpolicies.networking.k8s.io"
    )
    _start_dns(control)


def wait_ready() -> None:
    """Wait until names are resolved, and the service account that every pod needs is there."""
    control = machine()
    listing = ["get", "serviceaccount", "default", "--namespace", "default"]
    wait_until(lambda: succeeds(*listing), "there is a default service account")
    probe = "exec 3<>/dev/tcp/127.0.0.1/8181; printf 'GET /ready HTTP/1.0\\r\\n\\r\\n' >&3; head -1 <&3"
    wait_until(lambda: "200" in control.run(f"bash -c {probe!r} 2>&1 || true"), "the DNS server is ready")


def _api_server(authority: Authority) -> list[str]:
    path = authority.path
    return [
        f"--etcd-servers={_ETCD}",
        f"--bind-address={network.CONTROL}",
        f"--advertise-address={network.CONTROL}",
        "--secure-port=6443",
        f"--tls-cert-file={path('apiserver.crt')}",
        f"--tls-private-key-file={path('apiserver.key')}",
        f"--client-ca-file={authority.certificate}",
        f"--kubelet-certificate-authority={authority.certificate}",
        f"--kubelet-client-certificate={path('apiserver-to-kubelet.crt')}",
        f"--kubelet-client-key={path('apiserver-to-kubelet.key')}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={path('service-accounts.pub')}",
        f"--service-account-signing-key-file={path('service-accounts.key')}",
        f"--service-cluster-ip-range={network.SERVICES}",
        f"--requestheader-client-ca-file={authority.certificate}",
        f"--requestheader-allowed-names={_AGGREGATOR}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={path(f'{_AGGREGATOR}.crt')}",
        f"--proxy-client-key-file={path(f'{_AGGREGATOR}.key')}",
        "--enable-aggregator-routing",  # no kube-proxy runs here that would know the addresses of Services
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
    ]


def _start_dns(control: Machine) -> None:
    (RUN / "Corefile").write_text(_COREFILE)
    control.spawn("coredns", str(binary("coredns")), "-conf", str(RUN / "Corefile"))


def _allow(user: str, verbs: str, resources: str) -> None:
    kubectl("create", "clusterrole", user, f"--verb={verbs}", f"--resource={resources}")
    kubectl("create", "clusterrolebinding", user, f"--clusterrole={user}", f"--user={user}")
