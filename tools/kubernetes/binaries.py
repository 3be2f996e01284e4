"""Builds the programs of a cluster once, from sources that ``go.sum`` pins, and keeps them beside other caches."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tools.chart.binaries import NoGoError, find_go
from tools.kubernetes.paths import BINARIES, CACHE, HERE, KUBERNETES, ClusterError

SOURCES = HERE / "go"
PROGRAMS = {
    "kubernetes": {
        "etcd": "go.etcd.io/etcd/server/v3",
        **{
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in (
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kube-proxy",
                "kubelet",
                "kubectl",
            )
        },
    },
    "coredns": {"coredns": "."},
    "network-policies": {"network-policies": "."},
    "pause": {"pause": "."},
    "prometheus-operator": {
        name: f"github.com/prometheus-operator/prometheus-operator/cmd/{name}"
        for name in ("operator", "prometheus-config-reloader")
    },
    "prometheus": {"prometheus": "github.com/prometheus/prometheus/cmd/prometheus"},
    "metrics-server": {"metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server"},
}
"""Of each module in ``go/``: the programs, and the packages they are built from."""
CLUSTER = ("kubernetes", "coredns", "network-policies", "pause")
"""The modules that every cluster needs."""
MONITORING = ("prometheus-operator", "prometheus")
"""Those that the chart's monitors and rules are tried with."""
AUTOSCALING = ("metrics-server",)
"""What tells a HorizontalPodAutoscaler what pods use."""
_TAGS = {"prometheus": ("remove_all_sd", "enable_kubernetes_sd")}
"""Build tags: the other kinds of service discovery bring the libraries of every cloud."""
_TELL_EVERY_S = 30


def binary(name: str) -> Path:
    """Return the path of a program, which :func:`build` has made."""
    return BINARIES / name


def missing(modules: Sequence[str] = CLUSTER) -> list[str]:
    """Return those of the modules whose programs are not there in the pinned version."""
    return [module for module in modules if _stamp(module) != _wanted(module)]


def build(modules: Sequence[str] = CLUSTER) -> None:
    """Build what is missing of the modules, and say what it takes.

    :raises ClusterError: there is no Go, or the sources can't be fetched.
    """
    BINARIES.mkdir(parents=True, exist_ok=True)
    with (BINARIES / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another clone may be at it
        if not (modules := missing(modules)):
            return
        try:
            go = find_go()
        except NoGoError as reason:
            raise ClusterError(str(reason)) from None
        began = time.monotonic()
        takes = "ten minutes" if "kubernetes" in modules else "a few minutes"
        print(f"== building {', '.join(modules)} in {BINARIES} ({takes} on two cores, once)", flush=True)
        for module in modules:
            _build_module(go, module)
        shutil.rmtree(_scratch())  # gigabytes; kept only if the build did not come to its end
        size = sum(file.stat().st_size for file in BINARIES.iterdir() if file.is_file())
        print(f"== built in {time.monotonic() - began:.0f} s, {size / 1e6:.0f} MB", flush=True)


def _build_module(go: Path, module: str) -> None:
    programs = PROGRAMS[module]
    listed = subprocess.run(
        [str(go), "list", "-deps", _tags(module), *programs.values()],
        cwd=SOURCES / module,
        env=_environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        raise ClusterError(f"the sources of {module} can't be fetched: {listed.stderr.strip()[-500:]}")
    progress = _Progress(module, len(listed.stdout.split()))
    for program, package in programs.items():
        file = BINARIES / f".{program}.new"
        options = ["-v", "-trimpath", _tags(module), "-ldflags", _linked(module), "-o", str(file)]
        command = [str(go), "build", *options, package]
        with subprocess.Popen(
            command, cwd=SOURCES / module, env=_environment(), stderr=subprocess.PIPE, text=True
        ) as running:
            assert running.stderr is not None  # noqa: S101  it was asked for
            progress.follow(running.stderr)
        if running.returncode:
            raise ClusterError(f"go build of {program} failed:\n{progress.said()}")
        file.replace(BINARIES / program)
    _stamp_file(module).write_text(_wanted(module))
    print(f"   {module}: {', '.join(programs)} after {progress.seconds():.0f} s", flush=True)


class _Progress:
    """Tells now and then how many packages are compiled, from what ``go build -v`` writes."""

    def __init__(self, module: str, packages: int) -> None:
        self._module = module
        self._packages = packages
        self._compiled = 0
        self._began = self._told = time.monotonic()
        self._last: deque[str] = deque(maxlen=10)

    def follow(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._last.append(line)
            self._compiled += 1
            if time.monotonic() - self._told > _TELL_EVERY_S:
                self._told = time.monotonic()
                print(
                    f"   {self._module}: {self._compiled} of at most {self._packages} packages"
                    f" after {self.seconds():.0f} s",
                    flush=True,
                )

    def said(self) -> str:
        return "".join(self._last)

    def seconds(self) -> float:
        return time.monotonic() - self._began


def _tags(module: str) -> str:
    return f"-tags={','.join(_TAGS.get(module, ()))}"


def _linked(module: str) -> str:
    """Return linker flags: no symbols, and the version as Kubernetes' own build sets it, which helm asks for."""
    flags = "-s -w"
    if module != "kubernetes":
        return flags
    told = {
        "gitVersion": KUBERNETES,
        "gitMajor": "1",
        "gitMinor": KUBERNETES.split(".")[1],
        "gitTreeState": "archive",
        "gitCommit": "unknown",
    }
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        flags += "".join(f" -X {package}.{name}={value}" for name, value in told.items())
    return flags


def _scratch() -> Path:
    return CACHE / "go"


def _environment() -> Mapping[str, str]:
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": f"-mod=readonly -modcacherw -buildvcs=false -p={os.cpu_count()}",
        "GOTOOLCHAIN": "local",
        "GOCACHE": str(_scratch() / "build"),
        "GOMODCACHE": str(_scratch() / "mod"),
    }


def _wanted(module: str) -> str:
    digest = hashlib.sha256(KUBERNETES.encode())
    for file in sorted((SOURCES / module).iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _stamp_file(module: str) -> Path:
    return BINARIES / f".{module}.built"


def _stamp(module: str) -> str:
    file = _stamp_file(module)
    return file.read_text() if file.exists() else ""
