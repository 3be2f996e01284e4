"""How soon the next process of librdkafka is started, and so how soon the member log is used after it was mended."""

from proxy.runtime.pauses import FIRST_S, Pauses

SHORTEST_SESSION_S = 10.0
"""The default of librdkafka before 1.6 and of Java before 3.0."""


def test_what_is_mended_is_used_within_the_shortest_session_of_clients():
    pauses, now = Pauses(), 0.0
    for _ in range(20):
        pause_s = pauses.next(now)
        assert pause_s < SHORTEST_SESSION_S
        now += pause_s + 1.0
    assert pause_s > 4 * FIRST_S, "a process that ends each time is started less often"


def test_after_a_process_that_lasted_the_next_pause_is_the_first_one():
    pauses = Pauses()
    for now in (1.0, 2.0, 3.0):
        pauses.next(now)
    pauses.began(10.0)
    assert pauses.next(70.0) == FIRST_S


def test_a_pause_may_have_to_be_longer():
    pauses = Pauses()
    pauses.at_least(20.0)
    assert (pauses.next(1.0), pauses.next(2.0)) == (20.0, 2 * FIRST_S)
