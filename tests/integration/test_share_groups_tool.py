"""`kafka-share-groups.sh` straight and through the proxy: the same is listed, described, reset and deleted."""

import pytest
from support.entry import running_proxy
from support.share import SHARE_CONSUMER, acknowledged, configure_group, skip_without_share_groups
from support.waiting import eventually

from tests.skips import Need, without
from tools.kafka import jars, share_groups_tool

pytestmark = pytest.mark.kafka

RECORDS = 20


def cells(table: str) -> set[tuple[str, ...]]:
    """The lines of what the tool prints, by their words."""
    return {tuple(line.split()) for line in table.splitlines() if line.strip()}


@pytest.mark.parametrize("behind_proxy", [False, True], ids=["direct", "proxy"])
def test_a_share_group_is_described_reset_and_deleted(kafka, folder, consumers, group, behind_proxy):
    skip_without_share_groups(kafka.version, preview=False)
    topic = kafka.new_topic(partitions=1)
    configure_group(kafka, group, 30_000)
    kafka.produce(topic, RECORDS)

    def tool(*arguments: str, straight: bool = not behind_proxy) -> str:
        entry = kafka.bootstrap if straight else proxy.bootstrap
        try:
            return share_groups_tool.run(kafka.version, entry, *arguments)
        except jars.KafkaUnavailableError as reason:
            without(Need.KAFKA, reason)

    def offsets(column: str, **where: bool) -> str | None:
        header, *lines = [
            line.split()
            for line in tool("--describe", "--group", group, "--offsets", **where).splitlines()
            if line.strip() and not line.startswith("Consumer")
        ] or [[]]
        (found,) = [line for line in lines if line[1] == topic] or [None]
        return None if found is None else found[header.index(column)]

    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy:
        consumer = consumers.start(
            SHARE_CONSUMER,
            proxy.bootstrap if behind_proxy else kafka.bootstrap,
            group,
            topic,
            name="s1",
            only={
                "bootstrap": proxy.bootstrap if behind_proxy else kafka.bootstrap,
                "group": group,
                "topic": topic,
                "client_id": "s1",
                "mode": "explicit",
            },
        )
        consumers.wait_until(
            lambda: sum(acknowledged(consumers.all).values()) == RECORDS, "every record is acknowledged"
        )
        eventually(lambda: offsets("LAG"), lambda lag: lag == "0", what="all is acknowledged")
        members = tool("--describe", "--group", group, "--members")
        assert f"{topic}:0" in members
        assert cells(members) == cells(tool("--describe", "--group", group, "--members", straight=True))
        assert (group,) in cells(tool("--list"))
        consumer.close()
        tool("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute")
        assert offsets("START-OFFSET", straight=True) == str(RECORDS)
        tool("--delete-offsets", "--group", group, "--topic", topic)
        assert offsets("START-OFFSET", straight=True) is None
        tool("--delete", "--group", group)
        assert (group,) not in cells(tool("--list", straight=True))
