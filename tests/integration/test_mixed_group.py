"""Two classic consumers through the entry and one of the new protocol straight at the broker share a group.

Straight at the broker this is Kafka's own online upgrade, here as the baseline; through the proxy all three
are members of the new protocol.
"""

from collections import Counter

import pytest
from support.clients import ALL, CONFLUENT, EVERY_ASSIGNOR, JAVA
from support.ownership import Partition, account, overlaps
from support.short_form import first_or_last_assignor, of_librdkafka, shortened
from support.story import Case

PARTITIONS = 6
RECORDS = 60

CASES = [
    *shortened((Case("translate", *how) for how in EVERY_ASSIGNOR), first_or_last_assignor, CONFLUENT),
    *shortened((Case("translate", kind, kind.assignors[0]) for kind in ALL), of_librdkafka, JAVA),
    *shortened((Case("direct", kind, kind.assignors[0]) for kind in ALL), of_librdkafka, CONFLUENT),
]

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.parametrize(("case", "newcomer"), CASES, ids=str, scope="module"),
]


@pytest.mark.scenario("shares a group with a new-protocol consumer straight at the broker")
def test_old_and_new_members_share_the_partitions(case, newcomer, entry, kafka, consumers):
    group, topic = entry.new_group(), kafka.new_topic(partitions=PARTITIONS)
    everything = {Partition(topic, number) for number in range(PARTITIONS)}
    records = []

    def shared_by(*members):
        share = PARTITIONS // len(members)
        return all(len(one.owned()) == share for one in members) and everything == set().union(
            *(one.owned() for one in members)
        )

    def produced():
        return {(Partition(topic, record.partition), record.offset): record.value for record in records}

    def read_more():
        records.extend(kafka.produce(topic, RECORDS))
        consumers.wait_until(
            lambda: produced().keys() <= set().union(*(one.consumed() for one in consumers.all)),
            "every record is read",
        )

    old = [consumers.start(case.client, entry.bootstrap, group, topic, case.assignor) for _ in range(2)]
    consumers.wait_until(lambda: shared_by(*old), "the classic consumers share the partitions")
    read_more()

    new = consumers.start(newcomer, kafka.bootstrap, group, topic, group_protocol="consumer")
    consumers.wait_until(lambda: shared_by(*old, new), "all three share the partitions")
    read_more()
    types = Counter(member.member_type for member in kafka.describe(group).members)
    assert types == ({"consumer": 3} if entry.translates else {"classic": 2, "consumer": 1})

    new.close()
    consumers.wait_until(lambda: shared_by(*old), "the classic consumers have everything again")
    read_more()
    if entry.translates:
        assert Counter(member.member_type for member in kafka.describe(group).members) == {"consumer": 2}
    else:  # the broker has made it a classic group again
        assert len(kafka.describe_classic(group).members) == 2

    assert overlaps(consumers.logs) == []
    accounting = account(produced(), consumers.logs)
    assert accounting.each_once, accounting
