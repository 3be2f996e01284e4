"""What a configuration lacks of what brokers require, and peers that are no brokers (real: tests/integration)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from proxy.config.network import Address
from proxy.preflight import broker_security
from proxy.preflight.broker_security import NotLearned, Required, account_problem, addresses_of, learn

BROKER = Address("kafka", 9094)
SCRAM = Required(BROKER, tls=True, mechanisms=("PLAIN", "SCRAM-SHA-256"))
ACCOUNT = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "SCRAM-SHA-256",
    "sasl.username": "epochgate",
    "sasl.password": "hush",
}

Peer = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def peer(behave: Peer) -> AsyncIterator[Address]:
    """A server on loopback that treats each connection so."""
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, behave, [listener])
        yield Address(*listener.socket.getsockname()[:2])
        nursery.cancel_scope.cancel()


async def closes(stream: trio.SocketStream) -> None:
    await stream.aclose()


async def says_nothing(stream: trio.SocketStream) -> None:
    await trio.sleep_forever()


async def answers_nonsense(stream: trio.SocketStream) -> None:
    with trio.move_on_after(5):
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await stream.aclose()


async def announces_too_much(stream: trio.SocketStream) -> None:
    await stream.send_all(b"\x7f\xff\xff\xff" + bytes(1000))
    await trio.sleep_forever()


@pytest.mark.parametrize("behave", [closes, says_nothing, answers_nonsense, announces_too_much])
async def test_who_is_no_broker_is_not_learned_from_and_does_not_keep_anybody(monkeypatch, behave):
    monkeypatch.setattr(broker_security, "TIMEOUT_S", 0.5)
    async with peer(behave) as address:
        with trio.fail_after(10), pytest.raises(NotLearned, match=f"127.0.0.1:{address.port}: ."):
            await learn([address])


async def test_each_broker_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(broker_security, "TIMEOUT_S", 0.5)
    with pytest.raises(NotLearned) as error:
        await learn([Address("127.0.0.1", 1), Address("127.0.0.1", 2)])
    assert "127.0.0.1:1: " in str(error.value)
    assert "127.0.0.1:2: " in str(error.value)


def test_an_account_that_has_what_brokers_require_lacks_nothing():
    assert account_problem(ACCOUNT, SCRAM) is None
    assert account_problem({}, Required(BROKER, tls=False)) is None
    assert account_problem({"security.protocol": "sasl_ssl", **ACCOUNT}, SCRAM) is None


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (
            "security.protocol",
            "the member log has no account: the brokers require SASL_SSL by PLAIN or SCRAM-SHA-256",
        ),
        ("sasl.mechanisms", "`fleet.kafka` has `sasl.mechanisms: GSSAPI`"),
        ("sasl.username", "and sasl.username is missing"),
        ("sasl.password", "and sasl.password is missing"),
    ],
)
def test_what_an_account_lacks_is_said_with_what_to_set(without, said):
    problem = account_problem({name: value for name, value in ACCOUNT.items() if name != without}, SCRAM)
    assert problem is not None
    assert said in problem
    assert "sasl.mechanisms: SCRAM-SHA-256, sasl.username: NAME" in problem, "the best that the brokers have"
    assert "hush" not in problem


def test_an_account_for_brokers_that_require_none_is_said_too():
    problem = account_problem(ACCOUNT, Required(BROKER, tls=False))
    assert problem is not None
    assert "the brokers require PLAINTEXT" in problem


def test_brokers_that_do_not_say_by_which_mechanism_get_the_one_that_is_given():
    assert account_problem(ACCOUNT, Required(BROKER, tls=True, mechanisms=None)) is None


def test_brokers_of_the_log_without_a_port_have_the_default_one():
    given = {"bootstrap.servers": "log-kafka, SSL://other:9094,[::1]:9095,["}
    assert addresses_of(given) == [
        Address("log-kafka", 9092),
        Address("other", 9094),
        Address("::1", 9095),
    ]
