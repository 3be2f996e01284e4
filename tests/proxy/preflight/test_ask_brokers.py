"""Brokers that are asked without credentials: all of them, each once, and what becomes of those that do not answer."""

import math

import trio

from proxy.config.schema import Address
from proxy.preflight.ask_brokers import CONCURRENT, MOST_BROKERS, BrokerAddress, ask_apis, find_brokers
from proxy.preflight.facts import Apis, Unknown
from proxy.transport.dialer import Open
from proxy.transport.tcp_stream import open_tcp
from tests.proxy.fakes.broker import FakeBroker, a_cluster

TIMEOUT_S = 10.0


def addresses(brokers: dict[int, FakeBroker]) -> tuple[Address, ...]:
    return tuple(Address(*one.nodes[node_id]) for node_id, one in brokers.items())


async def test_the_brokers_of_the_cluster_are_found_and_asked():
    async with a_cluster(1, 2, 3) as brokers:
        found = (await find_brokers(addresses(brokers)[:1], open_tcp, TIMEOUT_S)).brokers
        assert not isinstance(found, Unknown)
        assert [one.node_id for one in found] == [1, 2, 3]
        answers = await ask_apis(found, open_tcp, TIMEOUT_S)
    for apis in answers.values():
        assert isinstance(apis, Apis)
        assert apis.versions[68] == (0, 1)
        assert apis.features == {}


async def test_a_broker_that_wants_authentication_still_tells_its_api_versions():
    async with a_cluster(1) as brokers:
        brokers[1].refuses_metadata = True
        found = await find_brokers(addresses(brokers), open_tcp, TIMEOUT_S)
    assert isinstance(found.brokers, Unknown)
    assert "authenticated clients only" in found.brokers.why
    assert "--kafka-conf" in found.brokers.do
    assert [apis.versions[68] for apis in found.answered.values()] == [(0, 1)]


async def test_a_broker_that_is_not_there_is_unknown_and_the_others_are_not():
    async with a_cluster(1, 2) as brokers:
        known = tuple(
            BrokerAddress(one.node_id, Address(*one.nodes[one.node_id])) for one in brokers.values()
        )
        brokers[2].stop()
        await trio.testing.wait_all_tasks_blocked()
        answers = await ask_apis(known, open_tcp, TIMEOUT_S)
    assert isinstance(answers[1], Apis)
    lost = answers[2]
    assert isinstance(lost, Unknown)
    assert str(known[1].address) in lost.why


async def test_an_address_that_leads_to_another_broker_is_a_wrong_route():
    async with a_cluster(1, 2) as brokers:
        nodes = brokers[1].nodes
        for one in brokers.values():
            one.cluster_id = "the-cluster"
        found = await find_brokers(addresses(brokers)[:1], open_tcp, TIMEOUT_S)
        nodes[1], nodes[2] = nodes[2], nodes[1]
        crossed = [BrokerAddress(node_id, Address(*nodes[node_id])) for node_id in nodes]
        answers = await ask_apis(crossed, open_tcp, TIMEOUT_S, found.cluster_id)
    for node_id, lost in answers.items():
        assert isinstance(lost, Unknown)
        wrong = f"wrong route: this is not broker {node_id} of the cluster the-cluster"
        assert lost.why == f"{Address(*nodes[node_id])}: {wrong}"
        assert "advertised.listeners" in lost.do


async def test_no_bootstrap_broker_that_answers_is_unknown_with_every_reason():
    async with a_cluster(1, 2) as brokers:
        asked = addresses(brokers)
        for one in brokers.values():
            one.stop()
        await trio.testing.wait_all_tasks_blocked()
        found = (await find_brokers(asked, open_tcp, TIMEOUT_S)).brokers
    assert isinstance(found, Unknown)
    assert found.why == "; ".join(f"{one}: Connection refused" for one in asked)


def never(opened: list[int]) -> Open:
    """Opens connections to nobody, and counts how many it was asked for at once."""

    async def open_(_host: str, _port: int) -> trio.abc.Stream:
        opened.append(opened[-1] + 1 if opened else 1)
        try:
            await trio.sleep(math.inf)
        finally:
            opened.append(opened[-1] - 1)
        raise AssertionError("not reached")

    return open_


async def test_brokers_that_are_silent_are_waited_for_together_and_not_for_long(autojump_clock):
    opened: list[int] = []
    brokers = [BrokerAddress(number, Address("kafka", 1 + number)) for number in range(2 * CONCURRENT)]
    answers = await ask_apis(brokers, never(opened), TIMEOUT_S)
    assert {type(one) for one in answers.values()} == {Unknown}
    assert max(opened) == CONCURRENT
    assert trio.current_time() == 2 * TIMEOUT_S


async def test_a_cluster_of_more_brokers_than_any_has_is_not_asked():
    async with a_cluster(1) as brokers:
        at = brokers[1].nodes[1]
        brokers[1].nodes |= dict.fromkeys(range(2, MOST_BROKERS + 1), at)
        found = await find_brokers((Address(*at),), open_tcp, TIMEOUT_S)
        assert not isinstance(found.brokers, Unknown)
        brokers[1].nodes[MOST_BROKERS + 1] = at
        found = await find_brokers((Address(*at),), open_tcp, TIMEOUT_S)
    assert isinstance(found.brokers, Unknown)
    assert found.brokers.why == "the cluster says that it has 1001 brokers, and at most 1000 are asked"


async def test_an_answer_that_does_not_end_is_not_read():
    stream, broker = trio.testing.memory_stream_pair()

    async def open_(_host, _port):
        return stream

    async def answer():
        await broker.send_all((16 * 1024 * 1024).to_bytes(4))
        await broker.receive_some()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            told = await ask_apis([BrokerAddress(1, Address("broker", 9092))], open_, math.inf)
    assert isinstance(told[1], Unknown)
    assert "16777216" in told[1].why
