"""A pod without a cluster: volumes as folders, and the container's command with its environment, as in a cluster.

Mounted paths begin with a folder of the test's instead of ``/``; so do those in the configuration. ConfigMaps and
Secrets are mounted as Kubernetes mounts them: behind a link that an update swaps.
"""

import functools
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.chart.image import Image, stage
from tests.proxy.fakes.certificates import Authority
from tools.chart.render import Manifest, one

UID = 10001
_OURS = ("/etc/epochgate", "/var/lib/epochgate")


class Pod:
    """The first container of the pods of a Deployment or of a Job, with its volumes under ``root``."""

    def __init__(self, manifests: list[Manifest], workload: Manifest, image: Image, root: Path) -> None:
        self._manifests = manifests
        self._image = image
        self.root = root
        self.spec = workload["spec"]["template"]["spec"]
        self.container = self.spec["containers"][0]
        self._volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        root.mkdir(parents=True)
        for mount in self.container["volumeMounts"]:
            self._mount(mount["mountPath"], self._volumes[mount["name"]])
        if os.geteuid() == 0:
            for at in [root, *root.rglob("*")]:
                os.chown(at, UID, UID, follow_symlinks=False)

    def start(self, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the container as the image and the manifest say, or with these arguments instead of its own."""
        with log.open("ab") as said:
            return subprocess.Popen(
                self.command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                **self._process(),
            )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The same, to its end."""
        return subprocess.run(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **self._process(),
        )

    def execute(self, command: list[str]) -> int:
        """Run a command in the container (an exec probe, a hook, a health check); its exit code."""
        return subprocess.run(command, check=False, capture_output=True, **self._process()).returncode

    def command(self, *arguments: str) -> list[str]:
        """The words that are executed."""
        words = self.container.get("command") or ["epochgate"]
        words = [*words, *(arguments or self.container.get("args", []))]
        return [self.inside(word) for word in words]

    def port(self, name: str) -> int:
        """The number of a port of the container."""
        (found,) = [at["containerPort"] for at in self.container["ports"] if at["name"] == name]
        return found

    def probe(self, kind: str) -> int:
        """The status that a probe gets; 0 if nobody answers."""
        get = self.container[kind]["httpGet"]
        url = f"http://127.0.0.1:{self.port(get['port'])}{get['path']}"
        try:
            with urllib.request.urlopen(url, timeout=self.container[kind]["timeoutSeconds"]) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def update(self, config_map: str, data: Mapping[str, str]) -> None:
        """Change a ConfigMap that is mounted."""
        (volume,) = [at for at in self._volumes.values() if at.get("configMap", {}).get("name") == config_map]
        (mount,) = [at for at in self.container["volumeMounts"] if at["name"] == volume["name"]]
        assert "subPath" not in mount, "Kubernetes never updates a subPath"
        self._project(
            self.root / mount["mountPath"].lstrip("/"), {key: text.encode() for key, text in data.items()}
        )

    def inside(self, text: str) -> str:
        """A text with the paths of mounts as they are here."""
        mounts = sorted((at["mountPath"] for at in self.container["volumeMounts"]), key=len, reverse=True)
        for place in (*_OURS, *mounts):
            if place != "/tmp":  # noqa: S108  the container's
                text = (
                    text.replace(place, f"{self.root}{place}") if f"{self.root}{place}" not in text else text
                )
        return text

    def _process(self) -> dict[str, Any]:
        plain = {
            at["name"]: self.inside(str(at["value"])) for at in self.container.get("env", []) if "value" in at
        }
        secret = {
            at["name"]: "127.0.0.1" if "fieldRef" in at["valueFrom"] else "secret"
            for at in self.container.get("env", [])
            if "valueFrom" in at
        }
        process: dict[str, Any] = {"env": self._image.environment(**plain, **secret), "cwd": self.root}
        if os.geteuid() == 0 and self._everybody_may_run_it():
            (user,) = [at.text for at in stage("epochgate") if at.name == "USER"]
            assert user == f"{UID}:{UID}"
            process |= {"user": UID, "group": UID, "extra_groups": []}
        return process

    def _everybody_may_run_it(self) -> bool:
        """Not so where this machine's Python is in a home folder."""
        python = self._image.prefix / "bin" / "python"
        return all(at.stat().st_mode & 0o001 for at in (*python.parents, *python.resolve().parents))

    def _mount(self, path: str, volume: Manifest) -> None:
        folder = self.root / path.lstrip("/")
        folder.mkdir(parents=True)
        if "configMap" in volume:
            try:
                data = one(self._manifests, "ConfigMap", volume["configMap"]["name"])["data"]
            except ValueError:  # of somebody else's making
                data = {"policy.yaml": "default: observe\n"}
            self._project(folder, {key: self.inside(text).encode() for key, text in data.items()})
        elif "projected" in volume:
            names = [at["configMap"]["name"] for at in volume["projected"]["sources"] if "configMap" in at]
            ours = [
                at for at in self._manifests if at["kind"] == "ConfigMap" and at["metadata"]["name"] in names
            ]
            self._project(folder, {key: text.encode() for at in ours for key, text in at["data"].items()})
        elif "secret" in volume:
            self._project(folder, _secret(), volume["secret"].get("defaultMode", 0o644))

    def _project(self, folder: Path, data: Mapping[str, bytes], mode: int = 0o644) -> None:
        """Files behind a link, which is swapped at once for all of them."""
        number = len(list(folder.glob("..[0-9]*")))
        fresh = folder / f"..{number}"
        fresh.mkdir()
        for name, content in data.items():
            (fresh / name).write_bytes(content)
            (fresh / name).chmod(mode)
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(Path("..data") / name)
        (folder / "..data_tmp").symlink_to(fresh.name)
        (folder / "..data_tmp").rename(folder / "..data")


@functools.cache
def _secret() -> dict[str, bytes]:
    """What is in a Secret of cert-manager, and in those with a revocation list, accounts and keys."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        certificate, key = authority.issue("proxy", "localhost", "kafka.example", "*.kafka.example")
        of_tls = {
            "tls.crt": certificate.read_bytes(),
            "tls.key": key.read_bytes(),
            "ca.crt": authority.file.read_bytes(),
            "ca.crl": authority.revoke().read_bytes(),
        }
    return {
        **of_tls,
        "mapped.yaml": b"CN=alice: {username: alice, password: secret, mechanism: SCRAM-SHA-512}\n",
        "password": b"secret",
        "mac-key": b"0123456789abcdef" * 2,
        "token": b"0123456789abcdef",
    }


def empty(folder: Path) -> Path:
    """The path of a folder that is not there any more."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder
