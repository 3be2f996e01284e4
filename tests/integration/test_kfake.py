"""franz-go's kfake as the broker behind the proxy: people test their applications against it.

It knows both protocols, and describes a consumer group to old tools as Stable, without members and without a protocol
type, where Kafka says that it is dead. It needs no Kafka.
"""

import subprocess
from collections.abc import Iterator

import pytest
from support.clients import CONFLUENT
from support.entry import Entry, running_proxy
from support.other_clients import FRANZ_GO, go_command
from support.ownership import Partition, overlaps

TOPIC = "orders"
PARTITIONS = {Partition(TOPIC, number) for number in range(4)}


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A kfake with the topic; it ends when its stdin is closed."""
    with subprocess.Popen(
        [*go_command("kfake"), TOPIC], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as kfake:
        yield kfake.stdout.readline().strip()


@pytest.fixture
def entry(bootstrap, folder) -> Iterator[Entry]:
    """A proxy in front of it that translates."""
    with running_proxy(bootstrap, folder / "proxy") as proxy:
        yield Entry("translate", proxy.bootstrap)


@pytest.mark.parametrize(
    ("kind", "assignor"), [(CONFLUENT, "range"), (FRANZ_GO, "cooperative-sticky")], ids=str
)
def test_members_that_start_at_once_share_the_partitions(entry, consumers, kind, assignor):
    group = entry.new_group()
    members = [consumers.start(kind, entry.bootstrap, group, TOPIC, assignor) for _ in PARTITIONS]

    def shared() -> bool:
        owned = [member.owned() for member in members]
        return all(len(one) == 1 for one in owned) and frozenset().union(*owned) == PARTITIONS

    consumers.wait_until(shared, "each has a partition")
    assert overlaps(consumers.logs) == []
