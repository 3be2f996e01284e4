"""The lines of many processes in one order, and what is known of each of them meanwhile."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain

from pipeline.rules.ordering import AFTER_LAST_US, FAR_US, HELD_BACK, Batch, Ordering
from tests.pipeline.journal_lines import BAD, GOOD

LATE = HELD_BACK + 2_000
"""Lines by which an event is too late: what was read with the others is put in order as well."""


class Lines:
    """A stream of lines."""

    def __init__(self, label: str, lines: Sequence[bytes]) -> None:
        self.label = label
        self.lines = lines
        self.at = 0
        self.opened = False

    def read(self, most: int) -> list[bytes]:
        self.opened = True
        some = self.lines[self.at : self.at + most]
        self.at += len(some)
        return list(some)

    def rewind(self) -> None:
        self.at, self.opened = 0, False


def line(replica: str, seq: int, time_us: int, **fields: object) -> bytes:
    return json.dumps({**GOOD, "replica": replica, "seq": seq, "time_us": time_us, **fields}).encode()


def of(replica: str, times: Iterable[int]) -> Lines:
    """A stream of a process with events at these times."""
    return Lines(replica, [line(replica, seq, time_us) for seq, time_us in enumerate(times, 1)])


def all_of(ordering: Ordering) -> list[Batch]:
    return list(ordering.batches())


def times(batches: Iterable[Batch]) -> list[tuple[int, str]]:
    """When and by whom events were written, in order within each batch."""
    return [keyed[:2] for batch in batches for keyed in sorted(chain.from_iterable(batch.parts))]


def test_the_events_of_all_processes_come_in_the_order_of_their_clocks() -> None:
    streams = [of("a", range(0, 40_000, 7)), of("b", range(5, 40_000, 3)), of("c", [100, 39_999])]
    found = times(all_of(Ordering(streams)))
    expected = [
        *((time_us, "a") for time_us in range(0, 40_000, 7)),
        *((time_us, "b") for time_us in range(5, 40_000, 3)),
        *((time_us, "c") for time_us in (100, 39_999)),
    ]
    assert found == sorted(expected)


def test_a_stream_that_begins_later_is_not_open_before() -> None:
    early, later = of("a", range(10_000)), of("b", range(1_000_000, 1_000_010))
    batches = Ordering([later, early]).batches()
    next(batches)
    assert early.opened
    assert not later.opened
    assert len(times(batches)) > 10


def test_a_process_has_ended_when_all_its_streams_have_and_before_later_events_come() -> None:
    one, other = Lines("a", [line("a", 1, 10), line("a", 3, 30)]), Lines("a", [line("a", 2, 20)])
    ordering = Ordering([one, other, of("b", range(0, 50_000, 5))])
    ended_at: dict[str, int] = {}
    known = -1
    for batch in ordering.batches():
        ended_at |= {replica: known for replica, _ in batch.ended}
        known = max((part[-1][0] for part in batch.parts), default=known)
    assert ended_at["a"] <= 30
    assert ended_at["b"] <= 50_000
    assert ordering.numbers["a", "b"].last_us == 30


def test_lines_that_are_out_of_order_are_put_in_order() -> None:
    shifted = [max(0, at - (HELD_BACK - 1) * (at % 200 == 199)) for at in range(5_000)]
    stream = Lines("a", [line("a", seq, time_us) for seq, time_us in enumerate(shifted, 1)])
    ordering = Ordering([stream])
    assert [time_us for time_us, _ in times(all_of(ordering))] == sorted(shifted)
    assert ordering.late == 0


def test_an_event_that_is_far_from_its_place_is_left_out_and_counted() -> None:
    lines = [line("a", seq, seq * 10) for seq in range(1, LATE)]
    lines.append(line("a", LATE + 1, 15))
    lines += [line("a", seq, seq * 10) for seq in range(LATE + 2, LATE + 10)]
    ordering = Ordering([Lines("a", lines)])
    found = [time_us for time_us, _ in times(all_of(ordering))]
    assert 15 not in found
    assert found == sorted(found)
    assert (ordering.late, ordering.late_us) == (1, 15)


def test_an_event_that_comes_twice_counts_once_however_late() -> None:
    lines = [line("a", seq, seq * 10) for seq in range(1, LATE)]
    ordering = Ordering([Lines("a", [*lines, *lines[:1_000]])])
    assert len(times(all_of(ordering))) == len(lines)
    assert (ordering.late, ordering.numbers["a", "b"].duplicates) == (0, 1_000)


def test_lines_that_are_no_events_are_counted_by_reason_and_bounded_in_time() -> None:
    bad = [text.encode() for text in BAD]
    ordering = Ordering(
        [
            Lines("a", [line("a", 1, 10), *bad, line("a", 2, 20)]),
            Lines("b", [line("b", 1, 30), b'{"v":1,"se']),
        ]
    )
    assert times(all_of(ordering)) == [(10, "a"), (20, "a"), (30, "b")]
    assert sum(ordering.quarantined.values()) == len(bad) + 1
    assert set(ordering.quarantined) == set(BAD.values())
    assert ordering.unreadable_until_us == {"a": 20, "b": 30 + AFTER_LAST_US}


def test_of_a_stream_without_events_nobody_knows_when_its_lines_were_written() -> None:
    ordering = Ordering([Lines("a", [b"x", b"y"])])
    all_of(ordering)
    assert ordering.unreadable_until_us == {"a": FAR_US}


def test_an_event_of_another_process_in_a_stream_is_quarantined() -> None:
    ordering = Ordering([Lines("a", [line("a", 1, 10), line("other", 1, 20), line("a", 2, 30)])])
    assert times(all_of(ordering)) == [(10, "a"), (30, "a")]
    assert list(ordering.quarantined) == ["an event of another process than the others in its file"]


def test_a_journal_without_events_ends() -> None:
    assert times(all_of(Ordering([Lines("a", []), Lines("b", [b"x"])]))) == []
    assert times(all_of(Ordering([]))) == []
