"""What common tools see of a group that moved: at the broker, and through the proxy (docs/how-to/tools.md).

kafka_exporter is in test_exporter.py. Tools that can't be started here are stood in for by the calls of their sources,
with the libraries that they use.
"""

import contextlib
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import lag_groups
from support.exporters import running
from support.lag_groups import OFFSETS, Groups
from support.waiting import eventually

from tests.skips import Need, not_here, without
from tools.chart.binaries import NoGoError
from tools.exporters import built
from tools.go_clients import built as go_clients
from tools.java_client import old_admin
from tools.kafka import jars
from tools.kafka.ports import LOOPBACK, free_ports

pytestmark = pytest.mark.kafka

LAG = 7


@pytest.fixture(scope="module")
def groups(kafka, entries) -> Iterator[Groups]:
    with lag_groups.groups(kafka, entries) as found:
        yield found


@pytest.fixture(scope="module")
def at(kafka, groups) -> Mapping[str, str]:
    return {"broker": kafka.bootstrap, "proxy": groups.through_proxy}


def go_tools(bootstrap: str, group: str, topic: str) -> dict[str, dict[str, Any]]:
    """What the tools that are written in Go see, by name."""
    try:
        go_clients.ensure_built()
    except NoGoError as reason:
        without(Need.KAFKA, reason)
    told = subprocess.run(
        [*go_clients.command("askers"), bootstrap, group, topic],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return {one["tool"]: one for one in map(json.loads, told.stdout.splitlines())}


def test_redpanda_console_leaves_a_moved_group_out_unless_it_asks_the_proxy(at, groups):
    seen = {
        where: go_tools(bootstrap, groups.moved, groups.topic)["console"] for where, bootstrap in at.items()
    }
    assert seen["broker"]["listed"]
    assert seen["broker"]["error"].startswith("GROUP_ID_NOT_FOUND")
    assert seen["proxy"] == {"tool": "console", "listed": True, "state": "Stable", "members": 2, "lag": LAG}


def test_kedas_kafka_scaler_sees_the_lag_of_a_moved_group_everywhere(at, groups):
    for bootstrap in at.values():
        seen = go_tools(bootstrap, groups.moved, groups.topic)["keda kafka"]
        assert seen == {"tool": "keda kafka", "listed": False, "members": 0, "lag": LAG}


def test_kedas_apache_kafka_scaler_without_a_topic_needs_the_proxy(at, groups):
    seen = {
        where: go_tools(bootstrap, groups.moved, groups.topic)["keda apache-kafka"]
        for where, bootstrap in at.items()
    }
    assert seen["broker"]["error"].startswith("no active members in group")
    assert seen["proxy"] == {
        "tool": "keda apache-kafka",
        "listed": False,
        "state": "Stable",
        "members": 2,
        "lag": 0,
    }


@pytest.mark.long  # Maven fetches each client once; test_old_tools.py has older ones through the proxy
@pytest.mark.parametrize(
    ("version", "at_the_broker"),
    [
        ("3.6.2", ("Dead", 0)),  # AKHQ 0.25.1 has it
        ("3.9.1", ("Stable", 2)),  # kafka-ui 1.5.0 has Confluent's build of it
    ],
)
def test_java_tools_see_the_members_of_a_moved_group_through_the_proxy(at, groups, version, at_the_broker):
    try:
        seen = {where: old_admin.look(version, bootstrap, groups.moved) for where, bootstrap in at.items()}
    except jars.KafkaUnavailableError as reason:
        without(Need.KAFKA, reason)
    assert groups.moved in seen["broker"].listed & seen["proxy"].listed
    assert (seen["broker"].state, len(seen["broker"].members)) == at_the_broker
    assert (seen["proxy"].state, len(seen["proxy"].members)) == ("Stable", 2)


_BURROW = """\
[client-profile.p]
kafka-version="2.0.0"
[cluster.main]
class-name="kafka"
client-profile="p"
servers=["{bootstrap}"]
topic-refresh=5
offset-refresh=1
[consumer.main]
class-name="kafka"
cluster="main"
client-profile="p"
servers=["{bootstrap}"]
group-allowlist="^({groups})$"
start-latest=false
[httpserver.default]
address="{address}"
"""


@contextlib.contextmanager
def burrow(bootstrap: str, groups: Groups, folder: Path) -> Iterator[str]:
    program = built.program("burrow")
    if program is None:
        not_here("Burrow is not built: python -m tools.exporters.built")
    (port,) = free_ports(1)
    address = f"{LOOPBACK}:{port}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "burrow.toml").write_text(
        _BURROW.format(bootstrap=bootstrap, groups=groups.pattern, address=address)
    )
    with running([str(program), f"--config-dir={folder}"], port, folder):
        yield f"http://{address}/v3/kafka/main/consumer"


def lag_in_burrow(url: str, group: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url}/{group}/lag", timeout=5) as answer:  # noqa: S310 - our own URL
            found: dict[str, Any] = json.load(answer)["status"]
            return found
    except (urllib.error.URLError, OSError):
        return {}


def committed_in(status: dict[str, Any]) -> set[int]:
    """Partitions with a commit. Burrow has those without one too, if a member of a classic group owns them."""
    return {one["partition"] for one in status.get("partitions", ()) if one["end"] is not None}


def test_burrow_sees_the_lag_of_a_moved_group_and_no_owners(kafka, groups, empty_folder):
    with burrow(kafka.bootstrap, groups, empty_folder("burrow")) as url:
        found = {
            group: eventually(
                lambda group=group: lag_in_burrow(url, group),
                lambda status: len(committed_in(status)) == len(OFFSETS) and status["totallag"] == LAG,
                what=f"Burrow has the lag of {group}",
            )
            for group in (groups.classic, groups.moved)
        }
    owners = {
        group: {one["partition"]: one["owner"] for one in status["partitions"]}
        for group, status in found.items()
    }
    assert all(owners[groups.classic].values())
    assert not any(owners[groups.moved].values())
