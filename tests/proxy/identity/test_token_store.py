"""Delegation tokens without a socket: one a principal, replaced in time, and everything with a bound."""

import base64

import pytest

from proxy.identity.credentials import Token
from proxy.identity.token_store import (
    LONGEST_REFUSED_S,
    LONGEST_WAIT_S,
    REFUSED_FOR_S,
    TokenLimits,
    TokenRefused,
    TokenStore,
)


def a_store(*, most_principals: int = 10, creations_per_s: float = 10.0) -> TokenStore:
    return TokenStore(TokenLimits(most_principals, creations_per_s), 0.0)


def a_token(owner: str = "alice", made_at: float = 0.0, life_s: float = 100.0) -> Token:
    return Token.of("SCRAM-SHA-256", owner, f"id-{owner}-{made_at}", b"hmac", made_at, made_at + life_s)


def given(store: TokenStore, token: Token) -> Token:
    store.connected(token.owner, token.made_at)
    store.ask(token.owner, token.made_at)
    store.made(token)
    return token


def test_a_principal_without_a_token_has_one_asked_for_once():
    store = a_store()
    store.connected("alice", 0)
    assert store.usable("alice", 0) is None
    assert not store.is_asked_for("alice")
    assert store.ask("alice", 0) == 0
    assert store.is_asked_for("alice")
    token = a_token()
    store.made(token)
    assert not store.is_asked_for("alice")
    assert store.usable("alice", 0) is token


def test_a_token_is_replaced_when_a_fifth_of_its_life_is_left_and_stays_until_then():
    store = a_store()
    token = given(store, a_token())
    assert not store.is_due("alice", 79.9)
    assert store.is_due("alice", 80)
    store.ask("alice", 80)
    assert not store.is_due("alice", 81), "it is asked for once"
    assert store.usable("alice", 81) is token, "nobody waits while it lives"
    assert store.outcome("alice", 81) is token
    after = a_token(made_at=82.0)
    store.made(after)
    assert store.usable("alice", 82) is after
    assert store.take_all(90) == [after, token], "sessions rest on the one before too"


def test_the_token_before_serves_while_the_broker_gives_no_other():
    store = a_store()
    token = given(store, a_token())
    store.ask("alice", 85)
    store.refused("alice", "the broker answers REQUEST_TIMED_OUT", 85, is_final=False)
    assert store.usable("alice", 86) is token
    assert not store.is_due("alice", 86), "it is not asked for again at once"
    assert store.is_due("alice", 85 + REFUSED_FOR_S)
    store.ask("alice", 99)
    assert store.usable("alice", 99.9) is token
    assert store.usable("alice", 100) is None, "the next one has to be waited for"
    store.refused("alice", "no answer", 101, is_final=False)
    with pytest.raises(TokenRefused, match="no answer"):
        store.usable("alice", 102)


def test_a_refused_principal_is_not_asked_for_again_for_a_while():
    store = a_store()
    store.connected("mallory", 0)
    store.ask("mallory", 0)
    store.refused("mallory", "the account may not", 0, is_final=True)
    with pytest.raises(TokenRefused, match="the account may not"):
        store.usable("mallory", REFUSED_FOR_S - 0.1)
    with pytest.raises(TokenRefused):
        store.outcome("mallory", 0)
    assert store.usable("mallory", REFUSED_FOR_S) is None


def test_a_principal_that_is_refused_again_and_again_is_asked_for_more_rarely():
    store = a_store()
    store.connected("mallory", 0)
    now, pauses = 0.0, []
    for _ in range(9):
        store.ask("mallory", now)
        store.refused("mallory", "the account may not", now, is_final=True)
        pause_s = 1.0
        while not store.is_due("mallory", now + pause_s):
            pause_s += 1
        pauses.append(pause_s)
        now += pause_s
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert pauses[-1] == LONGEST_REFUSED_S
    store.ask("mallory", now)
    store.refused("mallory", "no controller", now, is_final=False)
    assert store.is_due("mallory", now + REFUSED_FOR_S), "who could not be asked for is asked for again soon"
    store.ask("mallory", now + REFUSED_FOR_S)
    store.made(a_token("mallory", now + REFUSED_FOR_S, life_s=1.0))
    now += 60
    store.ask("mallory", now)
    store.refused("mallory", "the account may not", now, is_final=True)
    assert store.is_due("mallory", now + REFUSED_FOR_S), "a token was made meanwhile"


def test_refused_principals_take_no_tokens_from_the_others():
    store = a_store(most_principals=200, creations_per_s=10.0)
    for number in range(100):
        store.connected(str(number), 0)
        assert store.ask(str(number), 0) == 0
        store.refused(str(number), "the account may not", 0, is_final=True)
    store.connected("alice", 0)
    assert store.ask("alice", 0) == 0


def test_tokens_are_made_at_a_bounded_rate():
    store = a_store(most_principals=100, creations_per_s=10.0)
    waits = []
    for number in range(60):
        store.connected(str(number), 0)
        waits.append(store.ask(str(number), 0))
    assert waits[:10] == [0] * 10
    assert waits[10:12] == pytest.approx([0.1, 0.2])
    assert max(waits) <= LONGEST_WAIT_S
    store.connected("one more", 0)
    with pytest.raises(TokenRefused, match="tokens_per_s"):
        store.ask("one more", 0)
    assert not store.is_asked_for("one more")
    assert store.ask("one more", 6) == pytest.approx(0)


def test_the_idlest_principal_makes_room_and_its_token_is_expired():
    store = a_store(most_principals=2)
    alice, bob = given(store, a_token("alice")), given(store, a_token("bob"))
    with pytest.raises(TokenRefused, match="2 principals"):
        store.connected("carol", 1)
    store.disconnected("alice")
    store.connected("alice", 2)
    store.disconnected("alice")
    store.disconnected("bob")
    store.connected("alice", 3)
    store.disconnected("alice")
    store.connected("carol", 4)
    assert store.next_to_expire(4) is bob
    assert store.next_to_expire(4) is None
    assert store.usable("alice", 4) is alice
    assert len(store) == 2


def test_principals_with_connections_hide_none_that_is_idle():
    store = a_store(most_principals=500)
    for number in range(500):
        store.connected(str(number), 0)
    store.disconnected("499")
    store.connected("another", 1)
    assert len(store) == 500


def test_a_token_that_brokers_do_not_know_is_dropped_once():
    store = a_store()
    token = given(store, a_token())
    store.useless(token)
    assert store.usable("alice", 1) is None
    assert store.next_to_expire(1) is token
    store.ask("alice", 1)
    after = a_token(made_at=1.0)
    store.made(after)
    store.useless(token)
    assert store.usable("alice", 2) is after


def test_replaced_tokens_are_bounded_and_forgotten_when_they_end():
    store = a_store(most_principals=1)
    first = given(store, a_token())
    for made_at in (1.0, 2.0):
        store.made(a_token(made_at=made_at))
    assert store.next_to_expire(3) is first
    store.connected("alice", 500)
    assert store.take_all(500) == []


def test_tokens_that_wait_in_vain_to_be_expired_are_counted():
    store = a_store(most_principals=1)
    tokens = [given(store, a_token(made_at=float(number))) for number in range(3)]
    for token in tokens:
        store.made(token)
        store.useless(token)
    assert store.take_dropped() > 0
    assert store.take_dropped() == 0
    assert store.next_to_expire(50) is tokens[-1]


def test_a_token_that_has_ended_needs_no_expiry():
    store = a_store()
    token = given(store, a_token())
    store.useless(token)
    assert store.next_to_expire(token.expires_at) is None


def test_principals_without_a_token_are_not_counted_as_having_one():
    store = a_store()
    alice = given(store, a_token("alice"))
    store.connected("bob", 0)
    assert (len(store), store.principals_with_token) == (2, 1)
    store.useless(alice)
    assert store.principals_with_token == 0


def test_all_tokens_that_live_are_taken_at_the_end_and_none_of_a_late_answer_is_lost():
    store = a_store()
    alice, bob = given(store, a_token("alice")), given(store, a_token("bob", life_s=5.0))
    assert bob not in store.take_all(10)
    late = a_token("carol")
    store.made(late)
    store.disconnected("alice")
    store.refused("dave", "late", 10, is_final=False)
    assert store.take_all(10) == [late]
    assert alice.expires_at == 100


def test_a_token_shows_no_secret():
    token = Token.of("SCRAM-SHA-256", "alice", "id", b"secret hmac", 0, 1)
    assert base64.b64decode(token.password) == b"secret hmac"
    for shown in (repr(token), str(token), f"{token}"):
        assert "c2Vj" not in shown
        assert "hmac" not in shown
    assert next(token.login()).endswith(b",tokenauth=true")
