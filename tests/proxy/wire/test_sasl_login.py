"""PLAIN and SCRAM, by the examples of the RFCs."""

import hashlib

import pytest

from proxy.wire.sasl_login import LoginError, SaltedPasswords, login

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_rfc_7677():
    tokens = login("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert next(tokens) == b"n,,n=user,r=" + NONCE.encode()
    assert tokens.send(FIRST) == PROOF
    with pytest.raises(StopIteration):
        tokens.send(LAST)


@pytest.mark.parametrize(
    "answers",
    [
        [FIRST.replace(b"r=r", b"r=x")],
        [FIRST.replace(b"4096", b"99999999")],
        [FIRST.replace(b"4096", b"4095")],
        [FIRST.replace(b"4096", b"16385")],
        [FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b"")],
        [FIRST.replace(b"W22Z", b"****")],
        [b"\xff"],
        [b""],
        [FIRST, LAST.replace(b"6rri", b"7rri")],
        [FIRST, b"e=invalid-proof"],
    ],
)
def test_a_broker_that_does_not_know_the_password_is_refused(answers):
    tokens = login("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(tokens)
    *first, last = answers
    for answer in first:
        tokens.send(answer)
    with pytest.raises(LoginError):
        tokens.send(last)


def test_a_delegation_token_is_named_as_one_and_its_salted_password_is_computed_once(monkeypatch):
    salted = SaltedPasswords()
    for _ in range(2):
        tokens = login("SCRAM-SHA-256", "user", "pencil", NONCE, by_token=True, salted=salted)
        assert next(tokens) == b"n,,n=user,r=" + NONCE.encode() + b",tokenauth=true"
        assert tokens.send(FIRST).startswith(PROOF[:60])
        monkeypatch.setattr(hashlib, "pbkdf2_hmac", None)


def test_most_iterations_of_kafka_are_accepted():
    tokens = login("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(tokens)
    assert tokens.send(FIRST.replace(b"4096", b"16384"))


def test_the_oldest_salted_password_makes_room_for_another(monkeypatch):
    computed: list[bytes] = []
    monkeypatch.setattr(
        hashlib, "pbkdf2_hmac", lambda _name, _password, salt, _n: computed.append(salt) or salt
    )
    salted = SaltedPasswords()
    for number in [*range(65), *range(1, 65)]:
        salted.of("sha256", "pencil", bytes([number]), 4096)
    assert len(computed) == 65, "the 64 newest are known"


def test_plain_is_one_token_and_names_are_escaped_in_scram():
    assert list(login("PLAIN", "alice", "s,=")) == [b"\0alice\0s,="]
    assert next(login("SCRAM-SHA-512", "a,b=c", "", "n")) == b"n,,n=a=2Cb=3Dc,r=n"
