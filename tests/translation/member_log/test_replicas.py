"""Who writes the log, for people: replicas by the header of their probes."""

import pytest

from translation.member_log import replicas
from translation.member_log.records import Writer
from translation.member_log.replicas import SILENT_AFTER_MS, Heard, Replica, Replicas, replica_header

FIRST, SECOND, STRANGER = (Writer(name.ljust(16, b"-")) for name in (b"first", b"second", b"stranger"))
POD = Replica(FIRST, "pod-1")


def test_a_replica_is_the_same_with_another_writer():
    known = Replicas()
    known.heard(FIRST, replica_header(POD), 1000)
    known.heard(SECOND, replica_header(POD), 3000)
    assert known.of(FIRST, "") == known.of(SECOND, "") == Heard(POD, 3000)
    assert known.all() == [Heard(POD, 3000)]
    assert known.newest_ms == 3000


def test_a_probe_that_is_read_late_does_not_make_a_replica_older():
    known = Replicas()
    known.heard(FIRST, replica_header(POD), 3000)
    known.heard(FIRST, replica_header(POD), 1000)
    assert known.of(FIRST, "").at_ms == known.newest_ms == 3000


def test_a_replica_is_silent_two_minutes_after_its_last_probe_by_the_clock_of_the_log():
    known = Replicas()
    known.heard(FIRST, replica_header(POD), 1000)
    known.heard(SECOND, None, 1000 + SILENT_AFTER_MS)
    assert not known.is_silent(known.of(FIRST, ""))
    assert known.count_heard() == 2
    known.heard(SECOND, None, 1001 + SILENT_AFTER_MS)
    assert known.is_silent(known.of(FIRST, ""))
    assert known.is_silent(known.of(STRANGER, "never heard"))
    assert known.count_heard() == 1


def test_without_a_probe_a_replica_is_named_by_its_record():
    assert Replicas().of(STRANGER, "pod-2") == Heard(Replica(STRANGER, "pod-2"), 0)


@pytest.mark.parametrize("header", [None, b"", b"short"])
def test_a_probe_that_does_not_name_its_replica_says_that_its_writer_lives(header):
    known = Replicas()
    known.heard(STRANGER, header, 1000)
    assert known.of(STRANGER, "pod-2") == Heard(Replica(STRANGER, "pod-2"), 1000)


def test_a_name_that_is_no_text_is_shown_all_the_same():
    known = Replicas()
    known.heard(FIRST, FIRST + b"pod-\xff", 1000)
    assert known.of(FIRST, "").replica.server == "pod-\ufffd"


def test_too_many_writers_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(replicas, "_LIMIT", 3)
    known = Replicas()
    known.heard(FIRST, replica_header(POD), 1000)
    for number in range(5):
        known.heard(Writer(bytes([number]) * 16), None, 2000)
    assert len(known.all()) == 3
    assert known.of(FIRST, "gone").at_ms == 0
