"""Share sessions: epochs, partitions, connections."""

from collections.abc import Callable

import pytest

from coordinator.errors import RequestRefused
from coordinator.share_partitions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionFetch,
    SessionPartition,
    ShareSessions,
)
from protocol_codecs import ErrorCode, Uuid

P = tuple(SessionPartition(Uuid(b"t" * 16), number) for number in range(4))
GREATEST = 2**31 - 1


@pytest.fixture
def sessions() -> ShareSessions:
    return ShareSessions()


def fetch(
    sessions: ShareSessions,
    epoch: int,
    *partitions: SessionPartition,
    member: str = "m",
    group: str = "g",
    connection: str = "c",
    forgotten: tuple[SessionPartition, ...] = (),
    acknowledges: bool = False,
) -> SessionFetch:
    return sessions.fetch(
        group,
        member,
        epoch,
        connection=connection,
        partitions=partitions,
        forgotten=forgotten,
        has_acknowledgements=acknowledges,
    )


def refused(code: ErrorCode, act: Callable[[], object]) -> None:
    with pytest.raises(RequestRefused) as raised:
        act()
    assert raised.value.code is code


class TestEpochs:
    def test_they_count_up_over_fetches_and_acknowledgements(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0])
        fetch(sessions, 1)
        sessions.acknowledge("g", "m", 2)
        fetch(sessions, 3)

    @pytest.mark.parametrize("epoch", [0, 2, 4, -2, GREATEST])
    def test_another_is_refused(self, sessions: ShareSessions, epoch: int):
        for past in range(3):
            fetch(sessions, past)

        if epoch != INITIAL_EPOCH:
            refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH, lambda: fetch(sessions, epoch))
        refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH, lambda: sessions.acknowledge("g", "m", epoch))
        fetch(sessions, 3)

    def test_after_the_greatest_comes_1(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH)
        sessions._sessions["g", "m"].epoch = GREATEST

        sessions.acknowledge("g", "m", GREATEST)
        sessions.acknowledge("g", "m", 1)

    def test_without_a_session(self, sessions: ShareSessions):
        for epoch in (1, FINAL_EPOCH, -2):
            refused(ErrorCode.SHARE_SESSION_NOT_FOUND, lambda epoch=epoch: fetch(sessions, epoch))
            refused(
                ErrorCode.SHARE_SESSION_NOT_FOUND, lambda epoch=epoch: sessions.acknowledge("g", "m", epoch)
            )

    def test_an_acknowledgement_opens_none(self, sessions: ShareSessions):
        refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH, lambda: sessions.acknowledge("g", "m", INITIAL_EPOCH))

    def test_acknowledgements_cannot_come_with_the_first_fetch(self, sessions: ShareSessions):
        refused(ErrorCode.INVALID_REQUEST, lambda: fetch(sessions, INITIAL_EPOCH, P[0], acknowledges=True))
        assert len(sessions) == 0

    def test_sessions_are_those_of_one_group(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH)
        fetch(sessions, INITIAL_EPOCH, group="other")
        fetch(sessions, 1)

        fetch(sessions, 1, group="other")

    def test_the_limit(self):
        sessions = ShareSessions(2)
        fetch(sessions, INITIAL_EPOCH)
        fetch(sessions, INITIAL_EPOCH, member="n")
        refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED, lambda: fetch(sessions, INITIAL_EPOCH, member="o"))

        fetch(sessions, INITIAL_EPOCH, member="n")
        sessions.close("g", "m")
        fetch(sessions, INITIAL_EPOCH, member="o")


class TestPartitions:
    def test_they_are_remembered(self, sessions: ShareSessions):
        assert fetch(sessions, INITIAL_EPOCH, P[0]).partitions == (P[0],)
        assert fetch(sessions, 1).partitions == (P[0],)

    def test_they_are_added_and_forgotten(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0], P[1])

        assert set(fetch(sessions, 1, P[2], forgotten=(P[0], P[3])).partitions) == {P[1], P[2]}

    def test_what_is_added_and_forgotten_is_forgotten(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH)

        assert fetch(sessions, 1, P[0], forgotten=(P[0],)).partitions == ()

    def test_each_fetch_begins_with_another(self, sessions: ShareSessions):
        first = fetch(sessions, INITIAL_EPOCH, *P[:3])
        others = [fetch(sessions, epoch) for epoch in (1, 2, 3)]

        assert [one.partitions for one in (first, *others)] == [
            (P[0], P[1], P[2]),
            (P[1], P[2], P[0]),
            (P[2], P[0], P[1]),
            (P[0], P[1], P[2]),
        ]

    def test_one_with_records_goes_to_the_end(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, *P[:3])
        second = fetch(sessions, 1)
        second.names(P[0], has_records=True, has_error=False)
        fetch(sessions, 2)

        assert fetch(sessions, 3).partitions == (P[1], P[2], P[0])

    def test_the_last_request_fetches_nothing(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0])

        assert fetch(sessions, FINAL_EPOCH, P[1]).partitions == ()

    def test_a_session_opened_anew_has_its_own(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0])
        fetch(sessions, INITIAL_EPOCH, P[1])

        assert fetch(sessions, 1).partitions == (P[1],)


class TestAnswers:
    """Which partitions an answer names."""

    def test_the_first_names_all(self, sessions: ShareSessions):
        first = fetch(sessions, INITIAL_EPOCH, P[0])

        assert first.names(P[0], has_records=False, has_error=False)

    def test_later_ones_name_what_has_records_or_an_error(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0])

        assert not fetch(sessions, 1).names(P[0], has_records=False, has_error=False)
        assert fetch(sessions, 2).names(P[0], has_records=True, has_error=False)
        assert fetch(sessions, 3).names(P[0], has_records=False, has_error=True)

    def test_one_that_was_added_is_named_once(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH)

        assert fetch(sessions, 1, P[0]).names(P[0], has_records=False, has_error=False)
        assert not fetch(sessions, 2).names(P[0], has_records=False, has_error=False)

    def test_one_whose_error_is_gone_is_named_once(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0])
        fetch(sessions, 1).names(P[0], has_records=False, has_error=True)

        assert fetch(sessions, 2).names(P[0], has_records=False, has_error=False)
        assert not fetch(sessions, 3).names(P[0], has_records=False, has_error=False)

    def test_a_fetch_that_waited_too_long(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0])
        waiting = fetch(sessions, 1)
        sessions.acknowledge("g", "m", 2)

        refused(
            ErrorCode.INVALID_SHARE_SESSION_EPOCH,
            lambda: waiting.names(P[0], has_records=False, has_error=False),
        )

    def test_a_fetch_that_waited_until_its_session_was_replaced(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0])
        waiting = fetch(sessions, 1)
        fetch(sessions, INITIAL_EPOCH, P[0])

        assert waiting.names(P[0], has_records=True, has_error=False)


class TestEnds:
    def test_closing_names_what_to_release(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0], P[1])

        closed = sessions.close("g", "m")

        assert closed is not None
        assert (closed.group_id, closed.member_id, closed.partitions) == ("g", "m", (P[0], P[1]))
        assert not closed.is_group_empty, "Kafka looks at that only when the connection ends"
        assert sessions.close("g", "m") is None

    def test_the_final_epoch_keeps_the_session_until_it_is_closed(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH)
        fetch(sessions, FINAL_EPOCH)
        sessions.acknowledge("g", "m", FINAL_EPOCH)
        assert len(sessions) == 1

        sessions.close("g", "m")
        assert len(sessions) == 0

    def test_a_connection_that_ends(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0])

        ended = sessions.disconnected("c")

        assert ended is not None
        assert (ended.group_id, ended.member_id, ended.partitions) == ("g", "m", (P[0],))
        assert ended.is_group_empty
        refused(ErrorCode.SHARE_SESSION_NOT_FOUND, lambda: fetch(sessions, 1))
        assert sessions.disconnected("c") is None

    def test_a_connection_without_a_session(self, sessions: ShareSessions):
        assert sessions.disconnected("c") is None

    def test_a_session_may_be_used_from_other_connections(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0])
        fetch(sessions, 1, connection="d")

        assert sessions.disconnected("d") is None
        fetch(sessions, 2)

    def test_others_of_the_group_are_left(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH)
        fetch(sessions, INITIAL_EPOCH, member="n", connection="d")

        ended = sessions.disconnected("c")

        assert ended is not None
        assert not ended.is_group_empty

    def test_only_the_last_session_of_a_connection_ends_with_it(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, member="first")
        fetch(sessions, INITIAL_EPOCH, member="last")

        ended = sessions.disconnected("c")

        assert ended is not None
        assert ended.member_id == "last"
        assert len(sessions) == 1

    def test_a_session_that_moved_to_another_connection_stays(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0])
        fetch(sessions, INITIAL_EPOCH, P[0], connection="d")

        ended = sessions.disconnected("c")

        assert ended is not None
        assert ended.partitions == ()
        assert not ended.is_group_empty
        fetch(sessions, 1, connection="d")

    def test_a_connection_that_ends_after_its_session_finds_the_group_empty(self, sessions: ShareSessions):
        fetch(sessions, INITIAL_EPOCH, P[0])
        sessions.close("g", "m")

        ended = sessions.disconnected("c")

        assert ended is not None
        assert (ended.partitions, ended.is_group_empty) == ((), True)

    def test_a_session_closed_on_a_shared_connection_hides_the_other_one(self, sessions: ShareSessions):
        """As in Kafka: the connection has room for one session, and the close marks whichever it has."""
        fetch(sessions, INITIAL_EPOCH, member="first")
        fetch(sessions, INITIAL_EPOCH, P[0], member="last")
        sessions.close("g", "first")

        ended = sessions.disconnected("c")

        assert ended is not None
        assert ended.partitions == ()
        assert len(sessions) == 1
