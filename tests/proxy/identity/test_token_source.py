"""Tokens from a scripted broker: by an account that authenticates, once for all who wait, and expired at the end."""

import contextlib
import math
import secrets
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import structlog
import trio

from protocol_codecs import ErrorCode
from protocol_codecs.messages.create_delegation_token import CreateDelegationTokenResponse
from proxy.config.schema import Address
from proxy.identity.account_connections import AccountError
from proxy.identity.credentials import Credentials, Token
from proxy.identity.token_account import TokenAccount
from proxy.identity.token_source import TokenSource
from proxy.identity.token_store import TokenLimits, TokenRefused, TokenStore
from proxy.metrics.registry import Metrics
from proxy.transport.dialer import Dialed, Dialer
from proxy.transport.node_table import NodeTable
from tests.proxy.fakes.secured_broker import SecuredBroker

Dial = Callable[[], Awaitable[Dialed]]


def dialing(broker: SecuredBroker) -> Dial:
    return partial(Dialer([Address(*broker.nodes[1])], NodeTable(), 5.0, Metrics()).dial, None)


def an_account_that(
    dial: Dial, user: str = "gate", clock: Callable[[], float] = trio.current_time
) -> TokenAccount:
    return TokenAccount(
        dial, Credentials("SCRAM-SHA-256", user, "gate-secret"), "SCRAM-SHA-256", 60_000, clock
    )


def an_account(broker: SecuredBroker, user: str = "gate") -> TokenAccount:
    return an_account_that(dialing(broker), user)


def a_source(account, metrics: Metrics | None = None, **limits) -> TokenSource:
    store = TokenStore(
        TokenLimits(**{"most_principals": 10, "creations_per_s": 100.0} | limits), trio.current_time()
    )
    return TokenSource(store, account, metrics or Metrics())


def a_token(owner: str = "alice") -> Token:
    return Token.of("SCRAM-SHA-256", owner, "id", b"h", 0, math.inf, "gate")


def value_of(metric) -> float:
    return next(iter(metric.collect())).samples[0].value


# -- the account ---------------------------------------------------------------------------------------------


async def test_the_account_makes_a_token_of_another_and_may_expire_it(broker):
    account = an_account(broker)
    token = await account.create("CN=alice")
    assert token.owner == "CN=alice"
    assert token.expires_at - token.made_at == pytest.approx(60)
    assert broker.tokens.made[token.user] == ("CN=alice", token.hmac)
    assert broker.tokens.renewers == ["User:gate"]
    await account.expire(token)
    assert broker.tokens.made == {}
    await account.expire(await account.create("CN=alice"))
    assert broker.connections == 2, "one to create and one to expire, which are kept"
    await account.aclose()


async def test_a_connection_that_the_broker_closed_is_replaced(broker):
    account = an_account(broker)
    await account.create("a")
    broker.stop()
    await broker.start()
    assert (await account.create("b")).owner == "b"
    await account.aclose()


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, TokenRefused, "CREATE_TOKENS"),
        (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, TokenRefused, "delegation.token.secret.key"),
        (ErrorCode.REQUEST_TIMED_OUT, AccountError, "REQUEST_TIMED_OUT"),
    ],
)
async def test_what_the_broker_refuses_is_named(broker, code, error, said):
    broker.tokens.error = code
    account = an_account(broker)
    with pytest.raises(error, match=said):
        await account.create("a")
    await account.aclose()


async def test_a_wrong_password_is_named_without_it(broker):
    with pytest.raises(AccountError, match="SASL_AUTHENTICATION_FAILED") as caught:
        await an_account(broker, "stranger").create("a")
    assert "gate-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"principal_name": "CN=bob"},
        {"principal_type": "Group"},
        {"token_id": ""},
        {"token_id": "x" * 300},
        {"token_id": "a\nb"},
        {"hmac": b""},
        {"hmac": b"x" * 2000},
        {"expiry_timestamp_ms": 0},
    ],
)
async def test_a_token_that_can_not_be_one_is_refused(broker, change):
    honest = broker.created

    def lying(asked) -> CreateDelegationTokenResponse:
        answer = honest(asked)
        return CreateDelegationTokenResponse(
            **{f: getattr(answer, f) for f in answer.__struct_fields__} | change
        )

    broker.created = lying
    account = an_account(broker)
    with pytest.raises(AccountError, match="can't be one"):
        await account.create("CN=alice")
    await account.aclose()


async def test_a_token_lives_no_longer_than_was_asked_for(broker):
    honest = broker.created

    def generous(asked) -> CreateDelegationTokenResponse:
        answer = honest(asked)
        fields = {f: getattr(answer, f) for f in answer.__struct_fields__}
        return CreateDelegationTokenResponse(**fields | {"expiry_timestamp_ms": 2**62})

    broker.created = generous
    account = an_account(broker)
    token = await account.create("CN=alice")
    assert token.expires_at - token.made_at == pytest.approx(60)
    await account.aclose()


async def test_a_token_is_as_old_as_its_request_however_long_the_account_had_to_wait(broker):
    now = 0.0

    async def slow() -> Dialed:
        nonlocal now
        now += 70.0
        return await dialing(broker)()

    account = an_account_that(slow, clock=lambda: now)
    token = await account.create("CN=alice")
    assert (token.made_at, token.expires_at) == (70, 130)
    await account.aclose()


async def never() -> Dialed:
    await trio.sleep_forever()
    raise AssertionError


async def failing(ask: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(AccountError, match="no answer within 10 s"):
        await ask()


async def until(happened: Callable[[], bool]) -> None:
    """Wait for what needs no time on the test's clock."""
    for _ in range(1000):
        if happened():
            return
        await trio.testing.wait_all_tasks_blocked(0.001)
    raise AssertionError("it did not happen")


async def test_a_question_has_one_bound_also_for_its_turn(autojump_clock):
    account = an_account_that(never)
    began = trio.current_time()
    async with trio.open_nursery() as asking:
        for number in range(20):
            asking.start_soon(failing, partial(account.create, str(number)))
    assert trio.current_time() - began == pytest.approx(10)


async def test_connections_that_were_kept_and_are_silent_take_no_time_beyond_that(
    broker, mock_clock, nursery
):
    account = an_account(broker)
    async with trio.open_nursery() as creating:
        for owner in "abcd":
            creating.start_soon(account.create, owner)
    broker.holds_back = trio.Event()
    failed = trio.Event()

    async def ask() -> None:
        await failing(partial(account.create, "alice"))
        failed.set()

    nursery.start_soon(ask)
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(5)
    await until(lambda: broker.connections == 5)  # a fresh one
    mock_clock.jump(5)
    await until(failed.is_set)
    await account.aclose()
    broker.holds_back.set()


async def test_creations_do_not_wait_for_expiries_which_are_sixteen_at_once(broker, nursery):
    dialed = 0

    async def never_at_first() -> Dialed:
        nonlocal dialed
        dialed += 1
        return await (never() if dialed <= 16 else dialing(broker)())

    account = an_account_that(never_at_first)
    for _ in range(40):
        nursery.start_soon(account.expire, a_token())
    await trio.testing.wait_all_tasks_blocked()
    assert dialed == 16
    assert (await account.create("CN=alice")).owner == "CN=alice"
    await account.aclose()
    nursery.cancel_scope.cancel()


def others(user: str, password: str) -> tuple[Credentials, str, int]:
    return Credentials("SCRAM-SHA-256", user, password), "SCRAM-SHA-256", 60_000


async def test_another_password_is_used_and_connections_by_the_one_before_are_not(broker):
    account = an_account(broker)
    token = await account.create("a")
    broker.tokens.users["gate"] = "rotated"
    assert (await account.create("b")).owner == "b", "the connection is kept"
    assert broker.connections == 1
    account.use(*others("gate", "rotated"))
    await account.create("c")
    assert broker.connections == 2
    await account.expire(token)
    assert broker.tokens.expired_by == ["gate"]
    await account.aclose()


async def test_tokens_are_expired_by_the_user_that_is_their_renewer_however_often_that_changes(broker):
    broker.tokens.users |= dict.fromkeys(("second", "third"), "gate-secret")
    account = an_account(broker)
    tokens = [await account.create("a")]
    for user in ("second", "third", "gate"):
        account.use(*others(user, "gate-secret"))
        tokens.append(await account.create("a"))
    for token in tokens:
        await account.expire(token)
    assert broker.tokens.expired_by == ["gate", "second", "third", "gate"]
    assert broker.tokens.renewers == ["User:gate", "User:second", "User:third", "User:gate"]
    await account.aclose()


async def test_of_users_before_the_last_four_no_token_is_expired(broker):
    users = [f"user-{number}" for number in range(5)]
    broker.tokens.users |= dict.fromkeys(users, "gate-secret")
    account = an_account(broker, users[0])
    tokens = []
    for user in users:
        account.use(*others(user, "gate-secret"))
        tokens.append(await account.create("a"))
    with pytest.raises(AccountError, match="not among the last 4 users"):
        await account.expire(tokens[0])
    for token in tokens[1:]:
        await account.expire(token)
    assert broker.tokens.expired_by == users[1:]
    await account.aclose()


# -- the source ----------------------------------------------------------------------------------------------


class ScriptedAccount:
    """Makes tokens when it is let, or raises what it is given."""

    def __init__(self) -> None:
        self.may_answer = trio.Event()
        self.asked: list[str] = []
        self.expired: list[Token] = []
        self.errors: list[Exception] = []

    async def create(self, owner: str) -> Token:
        self.asked.append(owner)
        await self.may_answer.wait()
        if self.errors:
            raise self.errors.pop(0)
        now = trio.current_time()
        return Token.of("SCRAM-SHA-256", owner, secrets.token_hex(4), b"h", now, now + 100)

    async def expire(self, token: Token) -> None:
        self.expired.append(token)

    async def aclose(self) -> None:
        pass


async def test_a_token_is_asked_for_once_for_all_who_wait_and_shared(autojump_clock, nursery):
    account = ScriptedAccount()
    source = a_source(account)
    await nursery.start(source.run)
    got: list[Token] = []

    async def connection() -> None:
        source.connected("alice")
        got.append(await source.credentials_of("alice"))

    async with trio.open_nursery() as connections:
        for _ in range(5):
            connections.start_soon(connection)
        with trio.CancelScope() as impatient:
            connections.start_soon(trio.sleep, 0)
            impatient.deadline = trio.current_time() + 1
            source.connected("alice")
            await source.credentials_of("alice")
        assert impatient.cancelled_caught, "a client that goes away takes no token from the others"
        account.may_answer.set()
    assert account.asked == ["alice"]
    assert len({id(token) for token in got}) == 1
    nursery.cancel_scope.cancel()


async def test_an_account_that_can_not_ask_tries_again_within_a_bound(autojump_clock, nursery):
    account = ScriptedAccount()
    account.may_answer.set()
    source = a_source(account)
    await nursery.start(source.run)
    source.connected("alice")
    account.errors = [AccountError("no controller")] * 3
    assert await source.credentials_of("alice")
    assert len(account.asked) == 4
    source.connected("bob")
    account.errors = [AccountError("no controller")] * 100
    with pytest.raises(TokenRefused, match="no controller"):
        await source.credentials_of("bob")
    assert len(account.asked) < 20
    nursery.cancel_scope.cancel()


async def test_who_was_refused_is_asked_for_at_once_by_another_account(autojump_clock, nursery):
    account = ScriptedAccount()
    account.may_answer.set()
    source = a_source(account)
    await nursery.start(source.run)
    source.connected("alice")
    account.errors = [TokenRefused("no right")]
    for _ in range(2):
        with pytest.raises(TokenRefused, match="no right"):
            await source.credentials_of("alice")
    assert account.asked == ["alice"]
    source.account_replaced()
    assert (await source.credentials_of("alice")).owner == "alice"
    nursery.cancel_scope.cancel()


async def test_a_bug_leaves_nobody_waiting(autojump_clock, nursery):
    account = ScriptedAccount()
    account.may_answer.set()
    source = a_source(account)
    await nursery.start(source.run)
    source.connected("alice")
    account.errors = [ZeroDivisionError()]
    with structlog.testing.capture_logs(), pytest.raises(TokenRefused, match="internal error"):
        await source.credentials_of("alice")
    nursery.cancel_scope.cancel()


async def ask(source: TokenSource, principal: str) -> None:
    """Whether it still gets its token depends on who is woken first."""
    with contextlib.suppress(TokenRefused):
        await source.credentials_of(principal)


async def test_tokens_without_use_are_expired_and_all_at_the_end(autojump_clock, nursery):
    account = ScriptedAccount()
    account.may_answer.set()
    source = a_source(account, most_principals=2)
    await nursery.start(source.run)
    for owner in ("alice", "bob", "carol"):
        source.connected(owner)
        await source.credentials_of(owner)
        source.disconnected(owner)
    await trio.sleep(2)
    assert [token.owner for token in account.expired] == ["alice"]
    account.may_answer = trio.Event()
    source.connected("dave")
    async with trio.open_nursery() as waiting:
        waiting.start_soon(ask, source, "dave")
        await trio.sleep(0.1)
        waiting.start_soon(source.expire_all, 0.0)
        await trio.sleep(0.1)
        account.may_answer.set()
        waiting.cancel_scope.deadline = trio.current_time() + 5
    await trio.sleep(2)
    assert {token.owner for token in account.expired} == {"alice", "bob", "carol", "dave"}
    nursery.cancel_scope.cancel()


async def test_a_token_serves_until_its_end_while_the_next_one_is_asked_for(autojump_clock, nursery):
    account = ScriptedAccount()
    account.may_answer.set()
    source = a_source(account)
    await nursery.start(source.run)
    source.connected("alice")
    first = await source.credentials_of("alice")
    account.may_answer = trio.Event()
    await trio.sleep(85)
    with trio.fail_after(0.1):
        for _ in range(3):
            assert await source.credentials_of("alice") is first
            await trio.testing.wait_all_tasks_blocked()
    assert account.asked == ["alice"] * 2, "it is asked for once"
    account.may_answer.set()
    await trio.sleep(0.1)
    assert await source.credentials_of("alice") is not first
    nursery.cancel_scope.cancel()


async def test_a_token_serves_until_its_end_though_too_many_others_are_asked_for(autojump_clock, nursery):
    account = ScriptedAccount()
    account.may_answer.set()
    source = a_source(account, creations_per_s=0.1)
    await nursery.start(source.run)
    source.connected("alice")
    token = await source.credentials_of("alice")
    await trio.sleep(85)
    source.connected("bob")
    await source.credentials_of("bob")
    assert await source.credentials_of("alice") is token
    source.connected("carol")
    with pytest.raises(TokenRefused, match="tokens_per_s"):
        await source.credentials_of("carol")
    nursery.cancel_scope.cancel()


async def test_what_the_brokers_do_not_expire_in_time_at_the_end_is_counted(autojump_clock, nursery):
    class Slow(ScriptedAccount):
        async def expire(self, token: Token) -> None:
            await trio.sleep(math.inf if token.owner == "bob" else 3)
            await super().expire(token)

    account, metrics = Slow(), Metrics()
    account.may_answer.set()
    source = a_source(account, metrics)
    await nursery.start(source.run)
    for owner in ("alice", "bob", "carol"):
        source.connected(owner)
        await source.credentials_of(owner)
    account.may_answer = trio.Event()
    source.connected("dave")
    nursery.start_soon(ask, source, "dave")  # its answer never comes
    await trio.sleep(0.1)
    began = trio.current_time()
    with structlog.testing.capture_logs() as logs:
        await source.expire_all(spare_s=0.0)
    assert trio.current_time() - began < 5, "a supervisor waits no longer"
    assert {token.owner for token in account.expired} == {"alice", "carol"}
    assert metrics.identity_tokens.labels("expired")._value.get() == 2
    assert metrics.identity_tokens.labels("not_expired")._value.get() == 1
    assert (logs[-1]["tokens"], logs[-1]["not_expired"]) == (2, 1)
    nursery.cancel_scope.cancel()


async def test_what_the_drain_left_of_its_time_serves_to_expire_tokens(autojump_clock, nursery):
    class Slow(ScriptedAccount):
        async def expire(self, token: Token) -> None:
            await trio.sleep(15)
            await super().expire(token)

    account = Slow()
    account.may_answer.set()
    source = a_source(account)
    await nursery.start(source.run)
    source.connected("alice")
    await source.credentials_of("alice")
    await source.expire_all(spare_s=12.0)
    assert [token.owner for token in account.expired] == ["alice"]
    nursery.cancel_scope.cancel()


async def test_at_the_end_no_token_waits_for_its_turn_at_the_account(autojump_clock, nursery):
    class Counting(ScriptedAccount):
        at_work = most = 0

        async def expire(self, token: Token) -> None:
            self.at_work += 1
            self.most = max(self.most, self.at_work)
            await trio.sleep(1)
            self.at_work -= 1
            await super().expire(token)

    account = Counting()
    account.may_answer.set()
    source = a_source(account, most_principals=100, creations_per_s=1000)
    await nursery.start(source.run)
    for number in range(40):
        source.connected(f"client-{number}")
        await source.credentials_of(f"client-{number}")
    await source.expire_all(spare_s=0.0)
    assert account.most == 16, "a question's time runs while it waits for a connection"
    assert len(account.expired) == 40
    nursery.cancel_scope.cancel()


async def test_the_metric_counts_principals_with_a_token_and_tokens_that_were_not_expired(
    autojump_clock, nursery
):
    account, metrics = ScriptedAccount(), Metrics()
    account.may_answer.set()
    source = a_source(account, metrics, most_principals=1)
    await nursery.start(source.run)
    source.connected("alice")
    assert value_of(metrics.identity_principals) == 0
    source.useless(await source.credentials_of("alice"))
    assert value_of(metrics.identity_principals) == 0
    await source.credentials_of("alice")
    assert value_of(metrics.identity_principals) == 1
    source.disconnected("alice")
    source.connected("bob")
    with structlog.testing.capture_logs():
        await trio.sleep(2)
    assert len(account.expired) == 1
    assert metrics.identity_tokens.labels("not_expired")._value.get() == 1
    await source.expire_all(spare_s=0.0)
    assert value_of(metrics.identity_principals) == 0
    nursery.cancel_scope.cancel()
