"""A Kafka and the proxy as containers of podman's, by testcontainers; both images are built from this tree."""

import dataclasses
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml
from docker.models.containers import Container  # type: ignore[import-untyped]
from support.broker import Kafka
from support.waiting import eventually
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from tests.skips import Need, not_here, without
from tools.image import engine, kafka, packages, project
from tools.image.paths import ImageError
from tools.kafka import jars, settings
from tools.kafka.ports import LOOPBACK, free_ports

_START = Path(__file__).with_name("start_kafka.sh")
_NODE = 1
_EVERYWHERE = "0.0.0.0"  # noqa: S104  in its container, of which only ports on loopback are published


@dataclasses.dataclass(frozen=True)
class Proxy:
    """The proxy's container, and where its ports are on this machine."""

    container: Container
    bootstrap: str
    admin: str


@pytest.fixture(scope="module")
def docker_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """podman behind Docker's API, for testcontainers."""
    if wanted := packages.missing(packages.NEEDED):
        without(Need.TOOLS, f"not installed: {', '.join(wanted)} (python -m tools.image installs it)")
    if reason := engine.why_not():
        not_here(reason)
    with engine.docker_api(tmp_path_factory.mktemp("engine")) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", url)
        # Its helper that removes what is left behind is an image of a registry. Here fixtures remove it.
        patch.setattr(testcontainers_config, "ryuk_disabled", True)
        yield url


@pytest.fixture(scope="module")
def broker(docker_api: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker in a container; this machine reaches it at the container's address."""
    try:
        name = kafka.build()
    except jars.KafkaUnavailableError as reason:
        without(Need.KAFKA, f"no Kafka: {reason}")
    except ImageError as reason:
        without(Need.TOOLS, f"no image of a Kafka: {reason}")
    folder = tmp_path_factory.mktemp("kafka") / "etc"
    folder.mkdir()
    (folder / "start.sh").write_text(_START.read_text())
    (folder / "server.properties").write_text(settings.properties(_broker_settings()))
    with DockerContainer(name).with_volume_mapping(str(folder), "/etc/kafka") as container:
        address = _running(container).attrs["NetworkSettings"]["IPAddress"]
        broker = Kafka(f"{address}:9092", source="testcontainers", version=jars.DEFAULT_VERSION)
        broker.new_topic("warm-up", partitions=1)
        yield broker


@pytest.fixture(scope="module")
def image(docker_api: str) -> str:
    """The name of this tree's image."""
    try:
        return project.build()
    except ImageError as reason:
        without(Need.TOOLS, f"no image: {reason}")


@pytest.fixture
def proxy(image: str, broker: Kafka, tmp_path: Path) -> Iterator[Proxy]:
    """The proxy, as the image starts it, in front of the broker; every group is translated."""
    (entry, node, admin), folder = free_ports(3), tmp_path / "config"
    folder.mkdir()
    configuration = {
        "upstream": {"bootstrap": [broker.bootstrap]},
        "listeners": [
            {"bind": _EVERYWHERE, "port": entry, "advertised_host": LOOPBACK, "nodes": {str(_NODE): node}}
        ],
        "admin": {"bind": _EVERYWHERE},
        "policy": {"file": "/etc/epochgate/config/policy.yaml"},
    }
    (folder / "epochgate.yaml").write_text(yaml.safe_dump(configuration))
    (folder / "policy.yaml").write_text("default: translate\n")
    container = DockerContainer(image).with_volume_mapping(str(folder), "/etc/epochgate/config")
    for inside, outside in ((entry, entry), (node, node), (9080, admin)):
        # with_bind_ports would listen on every address; Docker takes an address here, the wrapper's type does not.
        container.ports[f"{inside}/tcp"] = (LOOPBACK, outside)  # type: ignore[assignment]
    with container:
        proxy = Proxy(_running(container), f"{LOOPBACK}:{entry}", f"http://{LOOPBACK}:{admin}")
        eventually(lambda: _is_ready(proxy.admin), what=f"the proxy is ready: {proxy.container.logs()!r}")
        yield proxy


def _broker_settings() -> dict[str, str]:
    return {
        **settings.for_tests(brokers=1),
        "node.id": str(_NODE),
        "process.roles": "broker,controller",
        "controller.quorum.voters": f"{_NODE}@localhost:9099",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://localhost:9099",
        "log.dirs": "/tmp/kafka",  # noqa: S108  in its container
    }


def _running(container: DockerContainer) -> Container:
    found = container.get_wrapped_container()
    found.reload()
    assert found.status == "running", found.logs()
    return found


def _is_ready(admin: str) -> bool:
    try:
        with urllib.request.urlopen(f"{admin}/readyz", timeout=5) as response:  # noqa: S310
            return bool(response.status == HTTPStatus.OK)
    except (urllib.error.URLError, ConnectionError):
        return False
