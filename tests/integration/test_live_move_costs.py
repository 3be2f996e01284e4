"""The measures of benchmarks/live_move.py, on logs made up. Needs no Kafka."""

from support.ownership import Event, Partition

from benchmarks.live_move_costs import Phase, reading

NS = 1_000_000_000
PHASES = [Phase("at work", 0), Phase("translate", 10 * NS), Phase("observe", 20 * NS)]
TOPIC = "t"


def rebalanced(client, kind, at_s, *numbers):
    return Event(client, kind, int(at_s * NS), 0, {"partitions": {TOPIC: list(numbers)}})


def read(client, at_s, number, offset):
    fields = {"topic": TOPIC, "partition": number, "offsets": [offset], "values": [f"{number}-{offset}"]}
    return Event(client, "records", int(at_s * NS), 0, fields)


def judged(*logs, produced=()):
    values = {(Partition(TOPIC, number), offset): f"{number}-{offset}" for number, offset in produced}
    return reading(PHASES, values, logs, until=30 * NS)


def test_callbacks_belong_to_the_phase_in_which_they_were_called():
    found = judged([rebalanced("a", "assigned", 1, 0), rebalanced("a", "lost", 12, 0)])
    assert (found.costs["at work"].callbacks, found.costs["at work"].lost) == (1, 0)
    assert (found.costs["translate"].callbacks, found.costs["translate"].lost) == (1, 1)
    assert found.costs["observe"].callbacks == 0


def test_a_record_is_read_twice_where_it_was_read_again():
    a = [rebalanced("a", "assigned", 1, 0), read("a", 19, 0, 5), rebalanced("a", "revoked", 21, 0)]
    b = [rebalanced("b", "assigned", 22, 0), read("b", 23, 0, 5)]
    found = judged(a, b, produced=[(0, 5)])
    assert (found.costs["translate"].read_twice, found.costs["observe"].read_twice) == (0, 1)


def test_a_partition_without_an_owner_counts_where_it_lost_it_and_until_the_end():
    found = judged([rebalanced("a", "assigned", 1, 0, 1), rebalanced("a", "revoked", 15, 1)])
    assert found.costs["translate"].longest_gap_s == 15
    assert found.costs["observe"].longest_gap_s == 0


def test_what_was_not_read_had_two_owners_or_ended_is_counted():
    a = [rebalanced("a", "assigned", 1, 0, 1), Event("a", "failed", 18 * NS, 0, {})]
    # The other partition had two owners while the group was formed.
    b = [rebalanced("b", "assigned", 9, 1), rebalanced("b", "assigned", 17, 0)]
    found = judged(a, b, produced=[(0, 5), (0, 6)])
    assert (found.records, found.unread, found.two_owners, found.ended) == (2, 2, 1, 1)
