"""The ownership checker finds what was planted, and nothing where nothing is wrong. Needs no Kafka."""

import json

import pytest
from support.ownership import (
    Event,
    Partition,
    account,
    deliveries,
    gaps,
    intervals,
    main,
    overlaps,
    owned_now,
    read_log,
)

P0, P1 = Partition("t", 0), Partition("t", 1)


def log(client, *lines):
    """(time, kind, partitions) and further fields, as a driver would write them."""
    return [
        Event(client, kind, mono, mono, {"partitions": {"t": list(partitions)} if partitions else {}, **more})
        for mono, kind, partitions, *rest in lines
        for more in [rest[0] if rest else {}]
    ]


def incremental(*lines):
    return [(*line, {"incremental": True}) for line in lines]


def records(client, mono, partition, *offsets):
    fields = {
        "topic": "t",
        "partition": partition,
        "offsets": offsets,
        "values": [f"{partition}/{o}" for o in offsets],
    }
    return Event(client, "records", mono, mono, fields)


def produced(partition, *offsets):
    return {(Partition("t", partition), offset): f"{partition}/{offset}" for offset in offsets}


def spans(found):
    return [(interval.partition, interval.begin, interval.ended_by and interval.end) for interval in found]


def test_ownership_lasts_from_assigned_to_revoked():
    a = log("a", (10, "assigned", [0, 1]), (20, "revoked", [0, 1]))
    assert spans(intervals(a)) == [(P0, 10, 20), (P1, 10, 20)]


def test_a_cooperative_client_keeps_what_is_not_named():
    a = log("a", *incremental((10, "assigned", [0]), (20, "assigned", [1]), (30, "revoked", [0])))
    assert spans(intervals(a)) == [(P0, 10, 30), (P1, 20, None)]
    assert owned_now(a) == {P1}


def test_an_eager_assignment_replaces_the_one_before_even_without_a_revocation():
    a = log("a", (10, "assigned", [0, 1]), (20, "assigned", [1]))
    assert spans(intervals(a)) == [(P0, 10, 20), (P1, 10, None)]


def test_what_a_closing_client_owns_ends_when_it_begins_to_close():
    a = log("a", (10, "assigned", [0]), (20, "closing", []), (40, "closed", []))
    assert spans(intervals(a)) == [(P0, 10, 20)]


def test_a_callback_during_close_counts():
    a = log("a", (10, "assigned", [0]), (20, "closing", []), (30, "revoked", [0]), (40, "closed", []))
    assert spans(intervals(a)) == [(P0, 10, 30)]


@pytest.mark.parametrize("end", ["killed", "died", "failed"])
def test_a_client_without_last_words_ends_with_its_process(end):
    a = log("a", (10, "assigned", [0]), (25, end, []))
    assert spans(intervals(a)) == [(P0, 10, 25)]
    assert owned_now(a) == frozenset()


def test_handing_over_is_no_overlap():
    a = log("a", (10, "assigned", [0]), (20, "revoked", [0]))
    b = log("b", (20, "assigned", [0]))
    assert overlaps([a, b]) == []


def test_a_partition_given_before_it_was_let_go_has_two_owners():
    a = log("a", (10, "assigned", [0, 1]), (20, "revoked", [0, 1]))
    b = log("b", (19, "assigned", [1]))
    (found,) = overlaps([a, b])
    assert (found.partition, found.first.client, found.second.client) == (P1, "a", "b")
    assert not found.after_loss
    assert "t-1 had two owners" in str(found)


def test_a_partition_that_its_owner_never_lets_go_has_two_owners():
    a = log("a", (10, "assigned", [0]))
    b = log("b", (50, "assigned", [0]))
    assert "until the end" in str(overlaps([a, b])[0])


def test_every_pair_of_three_owners_is_found():
    together = [log(name, (at, "assigned", [0])) for at, name in enumerate("abc")]
    assert [(o.first.client, o.second.client) for o in overlaps(together)] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]


def test_an_owner_between_two_intervals_of_another_is_found_in_whichever_it_touches():
    a = log("a", (10, "assigned", [0]), (20, "revoked", [0]), (30, "assigned", [0]))
    b = log("b", (20, "assigned", [0]), (31, "revoked", [0]))
    (found,) = overlaps([a, b])
    assert (found.first.client, found.second.client, found.second.begin) == ("b", "a", 30)


def test_a_killed_owner_overlaps_only_what_came_before_its_death():
    a = log("a", (10, "assigned", [0, 1]), (20, "killed", []))
    b = log("b", (19, "assigned", [0]), (20, "revoked", [0]), (21, "assigned", [0, 1]))
    assert [found.partition for found in overlaps([a, b])] == [P0]


def test_a_client_that_lost_its_membership_is_marked():
    a = log("a", (10, "assigned", [0]), (30, "lost", [0]))
    b = log("b", (20, "assigned", [0]))
    assert [found.after_loss for found in overlaps([a, b])] == [True]


def test_a_gap_is_the_time_without_an_owner():
    a = log("a", (10, "assigned", [0]), (20, "revoked", [0]))
    b = log("b", (50, "assigned", [0]), (70, "revoked", [0]))
    assert [(gap.partition, gap.begin, gap.end) for gap in gaps([a, b], until=100)] == [
        (P0, 20, 50),
        (P0, 70, 100),
    ]
    assert [gap.end for gap in gaps([a, b])] == [50]


def test_a_longer_interval_hides_a_gap_between_shorter_ones():
    a = log("a", (10, "assigned", [0]), (90, "revoked", [0]))
    b = log("b", (20, "assigned", [0]), (30, "revoked", [0]))
    c = log("c", (40, "assigned", [0]), (50, "revoked", [0]))
    assert gaps([a, b, c]) == []


def test_records_that_are_read_once_are_fine():
    a = [*log("a", (10, "assigned", [0])), records("a", 11, 0, 0, 1), records("a", 12, 0, 2)]
    found = account(produced(0, 0, 1, 2), [a])
    assert found.each_once
    assert not found.strays
    assert [delivery.offset for delivery in deliveries(a)] == [0, 1, 2]


def test_a_record_that_nobody_read_is_lost():
    a = [*log("a", (10, "assigned", [0])), records("a", 11, 0, 0, 2)]
    assert account(produced(0, 0, 1, 2), [a]).lost == {(P0, 1)}


def test_a_record_that_two_clients_read_is_a_duplicate():
    a = [*log("a", (10, "assigned", [0])), records("a", 11, 0, 0, 1)]
    b = [*log("b", (20, "assigned", [0])), records("b", 21, 0, 1)]
    found = account(produced(0, 0, 1), [a, b])
    assert [(at, [delivery.client for delivery in to]) for at, to in found.duplicates.items()] == [
        ((P0, 1), ["a", "b"])
    ]
    assert not found.each_once


def test_a_record_that_one_client_read_twice_is_a_duplicate():
    a = [*log("a", (10, "assigned", [0])), records("a", 11, 0, 0), records("a", 12, 0, 0)]
    assert list(account(produced(0, 0), [a]).duplicates) == [(P0, 0)]


def test_a_record_that_was_never_produced_or_has_another_value_is_unexpected():
    a = [*log("a", (10, "assigned", [0])), records("a", 11, 0, 0, 7)]
    found = account({(P0, 0): "another"}, [a])
    assert [delivery.offset for delivery in found.unexpected] == [0, 7]


def test_a_record_read_after_the_partition_was_given_up_is_a_stray():
    a = [*log("a", (10, "assigned", [0]), (20, "revoked", [0])), records("a", 21, 0, 0)]
    assert [delivery.client for delivery in account(produced(0, 0), [a]).strays] == ["a"]


def test_the_program_reads_logs_as_drivers_write_them_and_exits_1_on_an_overlap(tmp_path, capsys):
    def write(name, *events):
        lines = [
            {"event": kind, "mono": mono, "time": 0, "seq": 0, **fields} for mono, kind, fields in events
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(tmp_path / f"{name}.jsonl")

    given = {"partitions": {"t": [0]}, "incremental": False}
    a = write("a", (1, "started", {"pid": 1}), (10, "assigned", given), (30, "revoked", given))
    b = write("b", (20, "assigned", given))
    c = write("c", (40, "assigned", given))
    assert main([a, b]) == 1
    assert "OVERLAP t-0 had two owners" in capsys.readouterr().out
    assert main([a, c]) == 0
    assert "t-0 had no owner" in capsys.readouterr().out
    assert read_log(tmp_path / "b.jsonl")[0].partitions == {P0}
