"""When a replica takes it that every other writes the member log, by the addresses that two names give."""

import math

import pytest
import trio

from proxy.member_log.writer_watch import DOUBT_S, LOOKUP_EVERY_S, Lookup, WriterWatch, resolve, watch

OWN, NEW, OLD = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def addresses(*some: str) -> frozenset[str]:
    return frozenset(some)


def after(*lookups: Lookup) -> WriterWatch:
    found = WriterWatch(OWN)
    for number, lookup in enumerate(lookups):
        found.note(lookup, number * LOOKUP_EVERY_S)
    return found


ALL = Lookup(addresses(OWN, NEW), addresses(OWN, NEW))
BESIDE_OLD = Lookup(addresses(OWN, OLD), addresses(OWN))
UNKNOWN = Lookup(None, addresses(OWN))


def test_at_first_it_does_not_know():
    watched = WriterWatch(OWN)
    assert not watched.all_write
    assert watched.why_not is not None


def test_all_write_when_every_address_is_one_that_writes():
    watched = after(BESIDE_OLD, ALL)
    assert (watched.all_write, watched.why_not) == (True, None)


def test_a_replica_that_does_not_write_is_named():
    watched = after(BESIDE_OLD)
    assert not watched.all_write
    assert watched.why_not == f"replicas that may not write this log: {OLD}"


@pytest.mark.parametrize(
    "stale",
    [
        Lookup(addresses(NEW), addresses(NEW)),
        Lookup(addresses(OWN, NEW), addresses(NEW)),
        Lookup(addresses(NEW), addresses(OWN, NEW)),
        Lookup(addresses(), addresses()),
    ],
)
def test_an_answer_without_this_process_is_older_than_it(stale):
    assert not after(stale).all_write


def test_an_answer_of_another_spelling_is_the_same_address():
    watched = WriterWatch("FD00::0001")
    watched.note(Lookup(addresses("fd00::1"), addresses("fd00::1")), 0)
    assert watched.all_write


def test_names_read_from_caches_of_different_age_are_no_replica_without_the_log():
    watched = after(ALL, Lookup(addresses(OWN, NEW), addresses(OWN)), ALL)
    assert watched.all_write
    watched = after(
        ALL, Lookup(addresses(OWN, NEW), addresses(OWN)), Lookup(addresses(OWN, OLD), addresses(OWN))
    )
    assert watched.all_write, "each of them for one look only"


@pytest.mark.parametrize(
    "without", [BESIDE_OLD, Lookup(addresses(OWN), addresses()), Lookup(addresses(), addresses())]
)
def test_a_replica_that_stays_without_the_log_ends_it(without):
    looks = math.ceil(DOUBT_S / LOOKUP_EVERY_S)
    assert after(ALL, *[without] * looks).all_write
    watched = after(ALL, *[without] * (looks + 1))
    assert not watched.all_write
    assert watched.why_not is not None


def test_without_a_name_server_what_was_known_stays():
    assert after(ALL, *[UNKNOWN] * 10).all_write
    assert not after(BESIDE_OLD, UNKNOWN).all_write


def test_a_message_names_few_of_many():
    many = addresses(OWN, *(f"10.0.1.{number}" for number in range(100, 110)))
    why = after(Lookup(many, addresses(OWN))).why_not
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
            addresses(OWN, OLD)
            if name == "every" and trio.current_time() - began < LOOKUP_EVERY_S
            else writing
        )

    began = trio.current_time()
    with trio.move_on_after(2.5 * LOOKUP_EVERY_S):
        await watch("every", "writing", OWN, lambda watched: reports.append(watched.all_write), ask)
    assert reports == [False, True, True]
