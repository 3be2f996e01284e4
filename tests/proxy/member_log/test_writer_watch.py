"""When a replica takes it that every other writes the member log, by the addresses that two names give."""

import math

import pytest
import trio

from proxy.member_log.writer_watch import DOUBT_S, LOOK_EVERY_S, Look, WriterWatch, resolve, watch

OWN, NEW, OLD = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def addresses(*some: str) -> frozenset[str]:
    return frozenset(some)


def looked(*looks: Look) -> WriterWatch:
    found = WriterWatch(OWN)
    for number, look in enumerate(looks):
        found.seen(look, number * LOOK_EVERY_S)
    return found


ALL = Look(addresses(OWN, NEW), addresses(OWN, NEW))
BESIDE_OLD = Look(addresses(OWN, OLD), addresses(OWN))
UNKNOWN = Look(None, addresses(OWN))


def test_at_first_it_does_not_know():
    watched = WriterWatch(OWN)
    assert not watched.all_write
    assert watched.why_not is not None


def test_all_write_when_every_address_is_one_that_writes():
    watched = looked(BESIDE_OLD, ALL)
    assert (watched.all_write, watched.why_not) == (True, None)


def test_a_replica_that_does_not_write_is_named():
    watched = looked(BESIDE_OLD)
    assert not watched.all_write
    assert watched.why_not == f"replicas that may not write this log: {OLD}"


@pytest.mark.parametrize(
    "stale",
    [
        Look(addresses(NEW), addresses(NEW)),
        Look(addresses(OWN, NEW), addresses(NEW)),
        Look(addresses(NEW), addresses(OWN, NEW)),
        Look(addresses(), addresses()),
    ],
)
def test_an_answer_without_this_process_is_older_than_it(stale):
    assert not looked(stale).all_write


def test_an_answer_of_another_spelling_is_the_same_address():
    watched = WriterWatch("FD00::0001")
    watched.seen(Look(addresses("fd00::1"), addresses("fd00::1")), 0)
    assert watched.all_write


def test_names_read_from_caches_of_different_age_are_no_replica_without_the_log():
    watched = looked(ALL, Look(addresses(OWN, NEW), addresses(OWN)), ALL)
    assert watched.all_write
    watched = looked(
        ALL, Look(addresses(OWN, NEW), addresses(OWN)), Look(addresses(OWN, OLD), addresses(OWN))
    )
    assert watched.all_write, "each of them for one look only"


@pytest.mark.parametrize(
    "without", [BESIDE_OLD, Look(addresses(OWN), addresses()), Look(addresses(), addresses())]
)
def test_a_replica_that_stays_without_the_log_ends_it(without):
    looks = math.ceil(DOUBT_S / LOOK_EVERY_S)
    assert looked(ALL, *[without] * looks).all_write
    watched = looked(ALL, *[without] * (looks + 1))
    assert not watched.all_write
    assert watched.why_not is not None


def test_without_a_name_server_what_was_known_stays():
    assert looked(ALL, *[UNKNOWN] * 10).all_write
    assert not looked(BESIDE_OLD, UNKNOWN).all_write


def test_a_message_names_few_of_many():
    many = addresses(OWN, *(f"10.0.1.{number}" for number in range(100, 110)))
    why = looked(Look(many, addresses(OWN))).why_not
    assert why is not None
    assert why.endswith("10.0.1.104 and 5 more")


async def test_a_name_is_resolved_and_one_that_there_is_not_has_no_address():
    assert await resolve("127.0.0.1") == {"127.0.0.1"}
    assert await resolve("localhost.invalid.") in (
        frozenset(),
        None,
    )  # without a network no name server answers
    assert await resolve("a" * 64) in (frozenset(), None)


async def test_it_looks_again_and_again(autojump_clock):
    reports: list[bool] = []
    writing = addresses(OWN)

    async def ask(name: str) -> frozenset[str]:
        return (
            addresses(OWN, OLD) if name == "every" and trio.current_time() - began < LOOK_EVERY_S else writing
        )

    began = trio.current_time()
    with trio.move_on_after(2.5 * LOOK_EVERY_S):
        await watch("every", "writing", OWN, lambda watched: reports.append(watched.all_write), ask)
    assert reports == [False, True, True]
