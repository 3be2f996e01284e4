"""The section `identity`, and what listeners need of it: every mistake is named with its place."""

import pytest

from proxy.cli.configuration import checked
from proxy.config.document import ConfigError
from proxy.config.identity import IdentityMode
from tests.proxy.fakes.certificates import Authority

GOOD = """\
upstream: {bootstrap: ["kafka-0:9092"], tls: {ca: ca.pem}}
listeners:
  - advertised_host: localhost
    nodes: {"0-9": 9100}
    identity: delegation_token
    principal_mapping_rules: "RULE:^CN=(.*?),.*$/$1/L,DEFAULT"
    tls: {certificate: proxy.pem, key: proxy.key, client_ca: ca.pem, client_auth: required}
identity:
  allow: ["[a-z]+"]
  deny: [admin]
  account: {username: gate, password_file: password}
  mapped_file: mapped.yaml
"""


@pytest.fixture
def folder(tmp_path):
    Authority(tmp_path).issue("proxy")
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "mapped.yaml").write_text('alice: {username: a, password: "b"}\n')
    return tmp_path


def check(folder, text):
    file = folder / "epochgate.yaml"
    file.write_text(text)
    return checked(file).config


def test_a_good_section(folder):
    config = check(folder, GOOD)
    assert config.listeners[0].identity is IdentityMode.DELEGATION_TOKEN
    assert config.identity is not None
    assert config.identity.account is not None
    assert config.identity.account.password_file == str(folder / "password")
    assert config.identity.max_lifetime_ms == 3_600_000


RULES = '    principal_mapping_rules: "RULE:^CN=(.*?),.*$/$1/L,DEFAULT"\n'
MODE = "    identity: delegation_token\n"
MUTUAL = ", client_ca: ca.pem, client_auth: required"
ACCOUNT = "  account: {username: gate, password_file: password}\n"
TLS = ", tls: {ca: ca.pem}"
PLAIN_ACCOUNT = ACCOUNT.replace("{", "{mechanism: PLAIN, ")


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "said"),
    [
        (MODE + RULES, "", 3, "listeners[0]", "say what brokers learn"),
        ("delegation_token", "certificate", 5, "listeners[0].identity", "one of `none`, `delegation_token`"),
        (MUTUAL, "", 3, "listeners[0]", "needs `tls` with `client_auth: required`"),
        (MODE, "    identity: none\n", 6, "listeners[0].principal_mapping_rules", "needs `identity: "),
        (ACCOUNT, "", 5, "listeners[0].identity", "needs `identity.account`"),
        ("(.*?),", "(.*?", 6, "listeners[0].principal_mapping_rules", "can't be used"),
        ('"[a-z]+"', '"[a-z"', 9, "identity.allow", "is no regular expression"),
        ("[admin]", '["("]', 10, "identity.deny", "is no regular expression"),
        ('["[a-z]+"]', "[]", 9, "identity.allow", "that is not empty"),
        ("file: password", "file: nowhere", 11, "identity.account.password_file", "nowhere: can't be read"),
        ("file: mapped.yaml", "file: nowhere", 12, "identity.mapped_file", "can't be read"),
        ("username: gate", "user: gate", 11, "identity.account.user", "did you mean `username`"),
        ("deny: [admin]", "max_lifetime_ms: 1000", 10, "identity.max_lifetime_ms", ">= 60000"),
        ("deny: [admin]", "plaintext_upstream: 1", 10, "identity.plaintext_upstream", "expected `true`"),
        (TLS, "", 5, "listeners[0].identity", "delegation_token needs `upstream.tls`"),
        (
            "ca: ca.pem}}",
            "ca: ca.pem, verify_hostname: false}}",
            5,
            "listeners[0].identity",
            "act as every client",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(folder, old, new, line, key, said):
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        check(folder, GOOD.replace(old, new))
    told = [one for one in caught.value.problems if said in one]
    assert told, caught.value.problems
    assert f"epochgate.yaml:{line}:" in told[0]
    assert key in told[0]


@pytest.mark.parametrize("mode", ["delegation_token", "mapped"])
@pytest.mark.parametrize("tls", ["", ", tls: {ca: ca.pem, verify_hostname: false}"])
def test_brokers_that_are_not_verified_have_to_be_accepted(folder, mode, tls):
    text = GOOD.replace("delegation_token", mode).replace(TLS, tls)
    with pytest.raises(ConfigError, match=rf"epochgate.yaml:5:.*{mode} needs .*plaintext_upstream: true"):
        check(folder, text)
    check(folder, text + "  plaintext_upstream: true\n")


def test_the_account_sends_no_password_to_brokers_that_are_not_verified(folder):
    text = GOOD.replace(MODE, "    identity: none\n").replace(RULES, "").replace(ACCOUNT, PLAIN_ACCOUNT)
    check(folder, text)
    with pytest.raises(ConfigError, match=r"epochgate.yaml:10:.*identity.account.mechanism: PLAIN needs"):
        check(folder, text.replace(TLS, ""))
    check(folder, text.replace(TLS, "") + "  plaintext_upstream: true\n")


def test_mapped_needs_its_file(folder):
    text = GOOD.replace(MODE, "    identity: mapped\n")
    assert check(folder, text.replace(ACCOUNT, "")).listeners[0].identity is IdentityMode.MAPPED
    with pytest.raises(ConfigError, match=r"mapped needs `identity.mapped_file`"):
        check(folder, text.replace("  mapped_file: mapped.yaml\n", ""))


def test_none_is_accepted_if_it_is_written_down(folder):
    text = GOOD.replace(MODE, "    identity: none\n").replace(RULES, "")
    assert not check(folder, text).listeners[0].speaks_for_clients


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alice: {username: a, password: 12345}", "1:22: alice.password: expected a text in quotes"),
        ("alice: {username: a}", "alice.password: missing"),
        ("alice: {username: a, password: b, mechanism: GSSAPI}", "alice.mechanism"),
        ("alice: {username: a, password: 2020-99-99}", "put texts in quotes"),
        ('alice: {username: a, password: "s3cret", password: "s3cret"}', "given twice"),
        ("alice: s3cret", "alice: expected a mapping"),
        ("[alice]", "expected a mapping"),
        ("alice: {username: a, password: {s3cret: b}}", "expected a text in quotes"),
    ],
)
def test_a_mistake_in_the_mapped_file_is_named_without_its_values(folder, text, said):
    (folder / "mapped.yaml").write_text(f"{text}\n")
    with pytest.raises(ConfigError) as caught:
        check(folder, GOOD)
    told = str(caught.value)
    assert said in told
    assert str(folder / "mapped.yaml") in told
    for secret in ("12345", "2020-99", "s3cret"):
        assert secret not in told
