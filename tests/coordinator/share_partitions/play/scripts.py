"""The scripts: one behaviour each, in Kafka's words."""

from tests.coordinator.share_partitions.play.steps import (
    Acknowledge,
    Acknowledgements,
    DeleteRecords,
    Disconnect,
    Fetch,
    Gather,
    Produce,
    Script,
    Settings,
    Step,
)

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
SHORT = 4_000
"""Milliseconds of a lock that a script waits for: long enough for the steps before."""


def opens(member: str = "a", *partitions: int, wait_ms: int = 150, **limits: object) -> Fetch:
    """Open a session, of partition 0 by default."""
    return Fetch(member, 0, add=partitions or (0,), wait_ms=wait_ms, **limits)  # type: ignore[arg-type]


def acks(*batches: tuple[int, int, int], partition: int = 0) -> Acknowledgements:
    return {partition: [(first, last, [kind]) for first, last, kind in batches]}


def does(member: str, *batches: tuple[int, int, int]) -> Acknowledge:
    return Acknowledge(member, acks(*batches))


def leaves(member: str) -> Acknowledge:
    return Acknowledge(member, epoch=-1)


def again(member: str = "b") -> Fetch:
    """Open a session and take what others have left, which a broker may be about to release."""
    return opens(member, wait_ms=1_000)


def delivered(times: int, last: int, *, size: int, **settings: int) -> list[Step]:
    """All of a partition delivered so often before the script begins, and released whole."""
    steps: list[Step] = [Produce(0, (size,)), opens()]
    for _ in range(times - 1):
        steps += [does("a", (0, last, RELEASE)), Fetch("a")]
    return [*steps, does("a", (0, last, RELEASE))]


LEAVES_A_GAP: list[Step] = [
    Produce(0, (5, 5)),
    opens(max_records=1),
    Fetch("a", max_records=1),
    does("a", (5, 9, ACCEPT)),
    Fetch("a", forget=(0,)),
    Disconnect("a"),
    Disconnect("warm"),
]
"""The broker forgets what is acquired from 0 to 4, as the session that ends has forgotten the partition."""

SCRIPTS: dict[str, Script] = {
    # Acquiring.
    "whole_batches": Script(
        [Produce(0, (10, 10, 10)), opens(max_records=11), Fetch("a", max_records=1), Fetch("a")]
    ),
    "start_in_several_batches": Script([Produce(0, (4, 4, 4, 4)), opens(batch_size=6), Fetch("a")]),
    "batch_size_of_one": Script(
        [Produce(0, (3, 2)), opens(batch_size=1), does("a", (0, 4, ACCEPT)), again()]
    ),
    "record_limit": Script(
        [
            Produce(0, (10,)),
            opens(max_records=3, exactly=True),
            Fetch("a", max_records=3, exactly=True),
            opens("b", max_records=2),
            opens("c"),
            does("a", (0, 9, ACCEPT)),
            does("a", (0, 5, ACCEPT)),
        ]
    ),
    "record_limit_over_batches": Script(
        [
            Produce(0, (3, 3, 3)),
            opens(max_records=5, exactly=True),
            does("a", (0, 4, RELEASE)),
            Fetch("a", max_records=4, exactly=True),
            Fetch("a", max_records=2, exactly=True),
            Fetch("a", max_records=20, exactly=True),
        ]
    ),
    "record_limit_splits_batches_in_flight": Script(
        [
            Produce(0, (10,)),
            opens(),
            does("a", (0, 9, RELEASE)),
            Fetch("a", max_records=4, exactly=True),
            Fetch("a", max_records=4, exactly=True),
            Fetch("a"),
        ]
    ),
    "released_before_new": Script(
        [
            Produce(0, (5,)),
            opens(),
            does("a", (0, 4, RELEASE)),
            Produce(0, (5,)),
            Fetch("a"),
            does("a", (0, 9, 1)),
        ]
    ),
    "split_batches_are_joined": Script(
        [
            Produce(0, (6,)),
            opens(),
            does("a", (2, 3, RELEASE)),
            Fetch("a"),
            does("a", (0, 5, RELEASE)),
            Fetch("a"),
            Fetch("a"),
        ]
    ),
    "two_partitions_share_the_limit": Script(
        [
            Produce(0, (5, 5)),
            Produce(1, (5, 5)),
            opens("a", 0, 1, max_records=7),
            Fetch("a"),
            Fetch("a"),
        ]
    ),
    "no_records_wanted": Script(
        [Produce(0, (5,)), opens(max_records=0), Fetch("a", max_records=0), Fetch("a")]
    ),
    "more_than_may_be_in_flight": Script(
        [
            Produce(0, (60, 60, 10)),
            opens(),
            Fetch("a"),
            does("a", (30, 39, RELEASE)),
            Fetch("a"),
            Fetch("a"),
            does("a", (0, 59, ACCEPT)),
            Fetch("a"),
        ],
        Settings(max_record_locks=100),
    ),
    "in_flight_limit_with_the_record_limit": Script(
        [
            Produce(0, (60, 60, 10)),
            opens(max_records=500, exactly=True),
            Fetch("a", exactly=True),
            does("a", (0, 49, REJECT)),
            Fetch("a", exactly=True),
        ],
        Settings(max_record_locks=100),
    ),
    # Acknowledging.
    "accept": Script(
        [Produce(0, (10,)), opens(), does("a", (0, 9, ACCEPT)), does("a", (0, 9, ACCEPT)), again()]
    ),
    "reject": Script(
        [Produce(0, (10,)), opens(), does("a", (0, 9, REJECT)), again(), Produce(0, (2,)), Fetch("b")]
    ),
    "release": Script(
        [Produce(0, (10,)), opens(), does("a", (0, 9, RELEASE)), again(), does("a", (0, 9, ACCEPT))]
    ),
    "gap": Script([Produce(0, (10,)), opens(), does("a", (0, 3, GAP), (4, 9, ACCEPT)), again()]),
    "each_record": Script(
        [
            Produce(0, (8,)),
            opens(),
            Acknowledge("a", {0: [(0, 7, [ACCEPT, REJECT, GAP, RELEASE, ACCEPT, RELEASE, ACCEPT, ACCEPT])]}),
            again(),
            does("b", (3, 3, ACCEPT), (5, 5, ACCEPT)),
            Produce(0, (1,)),
            Fetch("b"),
        ]
    ),
    "a_part": Script(
        [Produce(0, (10,)), opens(), does("a", (3, 5, RELEASE)), again(), does("a", (0, 9, ACCEPT))]
    ),
    "below_the_start_offset": Script(
        [
            Produce(0, (10,)),
            opens(),
            does("a", (0, 4, ACCEPT)),
            does("a", (0, 4, ACCEPT)),
            does("warm", (1, 2, REJECT)),
            does("a", (2, 9, ACCEPT)),
        ]
    ),
    "another_member": Script(
        [
            Produce(0, (10,)),
            opens(),
            opens("b"),
            does("b", (0, 9, ACCEPT)),
            does("b", (2, 3, ACCEPT)),
            does("a", (5, 5, RELEASE)),
            Fetch("b"),
            does("a", (0, 9, ACCEPT)),
            does("b", (5, 5, ACCEPT)),
            does("a", (0, 4, ACCEPT), (6, 9, ACCEPT)),
        ]
    ),
    "never_acquired": Script(
        [
            does("warm", (0, 0, ACCEPT)),
            Produce(0, (10,)),
            opens(max_records=4, exactly=True),
            does("a", (0, 5, ACCEPT)),
            does("a", (10, 10, ACCEPT)),
            does("a", (0, 10, ACCEPT)),
            does("a", (12, 15, ACCEPT)),
            does("a", (0, 3, ACCEPT)),
        ]
    ),
    "refused_in_the_middle": Script(
        [
            Produce(0, (10,)),
            opens(),
            does("a", (0, 3, ACCEPT), (4, 6, REJECT), (6, 7, ACCEPT)),
            Fetch("a"),
            does("a", (0, 3, ACCEPT), (4, 30, REJECT)),
            does("a", (0, 9, ACCEPT)),
        ]
    ),
    "malformed": Script(
        [
            Produce(0, (10,)),
            opens(),
            does("a", (4, 3, ACCEPT)),
            Acknowledge("a", {0: [(0, 3, [])]}),
            Acknowledge("a", {0: [(0, 3, [1, 1])]}),
            Acknowledge("a", {0: [(0, 3, [1, 1, 1, 1, 1])]}),
            does("a", (0, 3, 5)),
            does("a", (0, 3, -1)),
            does("a", (5, 9, ACCEPT), (0, 4, ACCEPT)),
            does("a", (0, 3, RENEW)),
            Acknowledge("a", acks((0, 3, RENEW)), version=1),
            does("a", (0, 4, ACCEPT), (4, 4, ACCEPT)),
            does("a", (-2, 4, ACCEPT)),
            does("a", (0, 4, ACCEPT), (5, 9, ACCEPT)),
        ]
    ),
    "two_partitions_are_answered_for_each": Script(
        [
            Produce(0, (5,)),
            Produce(1, (5,)),
            opens("a", 0, 1),
            Acknowledge("a", {0: [(0, 4, [ACCEPT])], 1: [(0, 9, [ACCEPT])]}),
            Acknowledge("a", {0: [], 1: [(0, 4, [ACCEPT])]}),
            Acknowledge("a", {0: []}),
        ]
    ),
    # With a fetch.
    "piggybacked": Script(
        [
            Produce(0, (5, 5)),
            opens(max_records=1),
            Fetch("a", acknowledge=acks((0, 4, ACCEPT))),
            Fetch("a", acknowledge=acks((5, 9, RELEASE))),
            Fetch("a", acknowledge=acks((5, 9, ACCEPT))),
            Fetch("a", acknowledge=acks((20, 29, ACCEPT))),
            Fetch("a", acknowledge=acks((9, 8, ACCEPT))),
        ]
    ),
    "piggybacked_for_a_partition_beside_others": Script(
        [
            Produce(0, (5,)),
            Produce(1, (5,)),
            opens("a", 0),
            Fetch("a", add=(1,), acknowledge=acks((0, 4, ACCEPT))),
            Fetch("a", acknowledge=acks((0, 4, ACCEPT), partition=1)),
            Fetch("a", add=(0, 1), acknowledge=acks((0, 4, ACCEPT), partition=1)),
        ]
    ),
    "piggybacked_at_the_first_fetch": Script(
        [Fetch("a", 0, acknowledge=acks((0, 4, ACCEPT))), Fetch("a", 1)]
    ),
    "piggybacked_at_the_last_fetch": Script(
        [
            Produce(0, (5, 5)),
            opens(),
            Fetch("a", -1, acknowledge=acks((0, 4, ACCEPT))),
            Fetch("a", 2),
            again(),
        ]
    ),
    # Renewing.
    "renew": Script(
        [
            Produce(0, (10,)),
            opens(),
            Acknowledge("a", acks((0, 9, RENEW)), is_renew_ack=True),
            Acknowledge("a", acks((2, 3, RENEW)), is_renew_ack=True),
            Acknowledge("warm", acks((2, 3, RENEW)), is_renew_ack=True),
            Acknowledge("a", {0: [(0, 9, [RENEW, ACCEPT] * 5)]}, is_renew_ack=True),
            Acknowledge("a", acks((0, 9, RENEW)), is_renew_ack=True),
            Acknowledge("a", acks((0, 0, RENEW)), is_renew_ack=True),
        ]
    ),
    "renew_with_a_fetch": Script(
        [
            Produce(0, (5, 5)),
            opens(max_records=1),
            Fetch("a", acknowledge=acks((0, 4, RENEW)), is_renew_ack=True),
            Fetch("a", acknowledge={0: [(0, 4, [RENEW, ACCEPT, RENEW, RELEASE, RENEW])]}, is_renew_ack=True),
            Fetch("a"),
        ]
    ),
    "renew_is_not_enabled": Script(
        [
            Produce(0, (10,)),
            opens(),
            Acknowledge("a", acks((0, 9, RENEW)), is_renew_ack=True),
            Acknowledge("a", acks((0, 3, RENEW)), is_renew_ack=True),
            does("a", (0, 9, ACCEPT)),
        ],
        Settings(renew_enabled=False),
    ),
    # Delivered often.
    "delivered_too_often": Script(
        [*delivered(4, 1, size=2), *[Fetch("a") for _ in range(3)], leaves("a"), again()]
    ),
    "throttled": Script(
        [*delivered(3, 7, size=8), *[Fetch("a") for _ in range(3)], leaves("a"), again(), Fetch("b")]
    ),
    "throttled_and_new": Script(
        [
            *delivered(3, 3, size=4),
            Produce(0, (4,)),
            *[Fetch("a") for _ in range(4)],
            does("a", (0, 7, ACCEPT)),
        ]
    ),
    "throttled_with_the_record_limit": Script(
        [*delivered(3, 7, size=8), *[Fetch("a", max_records=3, exactly=True) for _ in range(4)]]
    ),
    "throttled_after_another_batch": Script(
        [
            Produce(0, (2,)),
            opens(),
            Produce(0, (8,)),
            *[step for _ in range(3) for step in (Fetch("a"), does("a", (2, 9, RELEASE)))],
            does("a", (0, 1, RELEASE)),
            Fetch("a"),
            Fetch("a"),
            Fetch("a"),
        ]
    ),
    "a_limit_of_two": Script(
        [*delivered(1, 3, size=4), Fetch("a"), does("a", (0, 3, RELEASE)), Fetch("a")],
        Settings(delivery_count_limit=2),
    ),
    "a_limit_of_three": Script(
        [*delivered(2, 3, size=4), *[Fetch("a") for _ in range(5)]], Settings(delivery_count_limit=3)
    ),
    "a_limit_of_ten": Script(
        [
            *delivered(5, 63, size=64),
            *[step for last in (31, 15, 7, 3) for step in (Fetch("a"), does("a", (0, last, RELEASE)))],
            Fetch("a"),
            Fetch("a"),
            Fetch("a"),
        ],
        Settings(delivery_count_limit=10),
    ),
    # Locks and sessions that end.
    "locks_end": Script(
        [
            Produce(0, (10,)),
            opens(),
            does("a", (2, 3, ACCEPT)),
            opens("b"),
            Gather("b", 8),
            does("a", (0, 1, ACCEPT)),
            does("b", (0, 1, ACCEPT), (4, 9, ACCEPT)),
            Produce(0, (1,)),
            Fetch("b"),
        ],
        Settings(lock_ms=SHORT),
    ),
    "locks_end_on_the_last_delivery": Script(
        [
            Produce(0, (3, 2)),
            opens(max_records=3),
            Gather("a", 3),
            Produce(0, (1,)),
            Gather("a", 3),
            Fetch("a"),
        ],
        Settings(lock_ms=SHORT, delivery_count_limit=2),
    ),
    "a_session_is_closed": Script(
        [
            Produce(0, (10,)),
            opens(),
            does("a", (0, 3, ACCEPT)),
            leaves("a"),
            again(),
            Acknowledge("a", acks((4, 9, ACCEPT)), epoch=2),
        ]
    ),
    "a_connection_ends": Script(
        [
            Produce(0, (10,)),
            opens(),
            does("a", (0, 3, ACCEPT)),
            Disconnect("a"),
            again(),
            does("a", (4, 9, ACCEPT)),
        ]
    ),
    "a_session_is_opened_anew": Script([Produce(0, (10,)), opens(), opens(), does("a", (0, 9, ACCEPT))]),
    "a_connection_with_two_sessions": Script(
        [
            Produce(0, (5,)),
            Produce(1, (5,)),
            Fetch("a", 0, add=(0,), connection="shared"),
            Fetch("b", 0, add=(1,), connection="shared"),
            Disconnect("shared"),
            opens("c", 1, wait_ms=1_000),
            opens("d"),
            Fetch("a", 1),
            Fetch("b", 1),
        ]
    ),
    "a_session_is_closed_beside_another": Script(
        [
            Produce(0, (5,)),
            Produce(1, (5,)),
            Fetch("a", 0, add=(0,), connection="shared"),
            Fetch("b", 0, add=(1,), connection="shared"),
            Acknowledge("a", epoch=-1, connection="shared"),
            again("c"),
            Disconnect("shared"),
            opens("d", 1, wait_ms=600),
            Fetch("b", 1),
        ]
    ),
    "a_session_moves_to_another_connection": Script(
        [
            Produce(0, (5,)),
            Fetch("a", 0, add=(0,), connection="first"),
            Fetch("a", 0, add=(0,), connection="second"),
            Disconnect("first"),
            opens("b", wait_ms=600),
            Acknowledge("a", acks((0, 4, ACCEPT)), epoch=1),
        ]
    ),
    "the_group_becomes_empty": Script(
        [
            Produce(0, (5, 5)),
            opens(max_records=1),
            Fetch("a", max_records=1),
            does("a", (5, 9, ACCEPT)),
            leaves("a"),
            again("b"),
            does("b", (0, 1, ACCEPT)),
            leaves("b"),
            leaves("warm"),
            Disconnect("warm"),
            Disconnect("a"),
            Disconnect("b"),
            Fetch("c", 0, add=(1,), wait_ms=600),
            Acknowledge("c", acks((2, 4, ACCEPT))),
            Fetch("c", add=(0,), wait_ms=1_000),
            does("c", (2, 4, ACCEPT)),
            Produce(0, (1,)),
            Fetch("c"),
        ]
    ),
    "what_was_forgotten_is_delivered_again": Script(
        [
            *LEAVES_A_GAP,
            opens("b", wait_ms=600),
            does("b", (0, 4, ACCEPT)),
            Produce(0, (1,)),
            Fetch("b"),
            does("b", (10, 10, ACCEPT)),
            Fetch("b"),
        ]
    ),
    "what_was_forgotten_is_delivered_again_in_parts": Script(
        [
            *LEAVES_A_GAP,
            opens("b", max_records=2, exactly=True, wait_ms=600),
            Fetch("b", max_records=2, exactly=True),
            does("b", (0, 1, ACCEPT)),
            Fetch("b"),
            does("b", (2, 4, RELEASE)),
            Fetch("b"),
            does("b", (2, 4, ACCEPT)),
            Produce(0, (1,)),
            Fetch("b"),
        ]
    ),
    # Session epochs.
    "session_epochs": Script(
        [
            Fetch("a", 1),
            Fetch("a", -1),
            Acknowledge("a", epoch=1),
            Acknowledge("a", epoch=-1),
            Acknowledge("a", epoch=0),
            opens(),
            Fetch("a", 2),
            Fetch("a", 1),
            Fetch("a", 1),
            Acknowledge("a", epoch=1),
            Acknowledge("a", epoch=0),
            Acknowledge("a", epoch=2),
            Fetch("a", 3),
            Fetch("a", -2),
            Acknowledge("a", epoch=-2),
            Fetch("a", -1),
            Fetch("a", 4),
            Acknowledge("a", epoch=4),
        ]
    ),
    "session_partitions": Script(
        [
            Produce(0, (1,)),
            Produce(1, (1,)),
            opens(),
            Fetch("a"),
            Fetch("a", add=(1,)),
            Fetch("a", forget=(0,)),
            Produce(0, (1,)),
            Produce(1, (1,)),
            Fetch("a"),
            Fetch("a", add=(0,)),
            Fetch("a", add=(1,), forget=(1,)),
            Produce(1, (1,)),
            Fetch("a"),
        ]
    ),
    "forgotten_partitions_keep_their_locks": Script(
        [
            Produce(0, (5,)),
            opens("a", 0, 1),
            Fetch("a", forget=(0,)),
            opens("b"),
            does("a", (0, 1, ACCEPT)),
            leaves("a"),
            opens("c", wait_ms=600),
        ]
    ),
    # The log's start.
    "records_are_deleted": Script(
        [
            Produce(0, (5, 5, 5)),
            opens(max_records=5),
            Fetch("a", max_records=5),
            does("a", (0, 4, RELEASE)),
            DeleteRecords(0, 5),
            Fetch("a", max_records=1),
            Fetch("a", max_records=1),
            does("a", (0, 9, ACCEPT)),
            does("a", (10, 14, ACCEPT)),
        ]
    ),
    "records_are_deleted_that_are_acquired": Script(
        [
            Produce(0, (5, 5)),
            opens(max_records=5),
            DeleteRecords(0, 10),
            Produce(0, (5,)),
            Fetch("a"),
            Fetch("a"),
            does("a", (0, 4, ACCEPT)),
            does("a", (10, 14, ACCEPT)),
            does("a", (0, 4, ACCEPT)),
        ]
    ),
    "records_are_deleted_inside_a_batch": Script(
        [
            Produce(0, (10,)),
            opens(),
            does("a", (0, 9, RELEASE)),
            DeleteRecords(0, 4),
            Fetch("a"),
            Fetch("a"),
            does("a", (0, 9, ACCEPT)),
            does("a", (4, 9, ACCEPT)),
        ]
    ),
    "records_are_deleted_inside_a_batch_that_is_new": Script(
        [
            Produce(0, (10,)),
            DeleteRecords(0, 4),
            opens(),
            Fetch("a"),
            does("a", (4, 9, ACCEPT)),
            Produce(0, (1,)),
            Fetch("a"),
        ]
    ),
}

ACROSS_THE_START = Script(
    [
        Produce(0, (2,)),
        Produce(1, (2,)),
        opens("a", 0, 1),
        does("a", (0, 1, ACCEPT)),
        Acknowledge("a", {1: [(0, 1, [ACCEPT])], 0: [(1, 2, [ACCEPT])]}),
        Acknowledge("a", acks((0, 1, ACCEPT), partition=1)),
    ]
)
"""An acknowledgement from before the start offset to after it, when nothing is in flight. Here Kafka 4.4.0 fails."""

GAP_DELETED = Script(
    [
        *LEAVES_A_GAP,
        DeleteRecords(0, 3),
        opens("b", wait_ms=600),
        Fetch("b"),
        Produce(0, (1,)),
        Fetch("b"),
        Fetch("b"),
    ]
)
"""The log begins inside what was forgotten. Here Kafka 4.4.0 fails."""

BATCH_CUT = Script(
    [
        Produce(0, (2,)),
        opens(),
        Produce(0, (30,)),
        DeleteRecords(0, 10),
        Fetch("a"),
        Fetch("a", max_records=3, exactly=True),
        Fetch("a"),
        Produce(0, (1,)),
        Fetch("a"),
        Fetch("a"),
    ]
)
"""The log begins inside a batch, of which the record limit leaves a part. Here Kafka 4.4.0 fails."""
