"""The configuration file: every mistake is named with its place and what was expected."""

from pathlib import Path

import pytest
import yaml

from proxy.config import document
from proxy.config.loader import ConfigError, load_config, load_policy
from proxy.config.policy_source import policy_of
from proxy.config.schema import Address, Config
from translation.policy.policy import Mode, Policy

GOOD = """\
upstream:
  bootstrap: ["kafka-0:9092", "[::1]:9093"]
  tls: null
listeners:
  - bind: 127.0.0.1
    port: 9092
    advertised_host: localhost
    nodes: {"0-9": 9100, "1001": 9200}
    tls: null
admin: {bind: 127.0.0.1, port: 9080}
policy: {file: policy.yaml}
workers: 1
"""


def load(tmp_path: Path, text: str, environment: dict[str, str] | None = None) -> Config:
    file = tmp_path / "epochgate.yaml"
    file.write_text(text)
    return load_config(file, environment or {})


def test_a_good_file(tmp_path):
    config = load(tmp_path, GOOD)
    assert config.upstream.addresses == (Address("kafka-0", 9092), Address("::1", 9093))
    (listener,) = config.listeners
    assert listener.node_ports == {**{n: 9100 + n for n in range(10)}, 1001: 9200}
    assert config.admin.port == 9080


def test_what_is_left_out_has_defaults(tmp_path):
    config = load(
        tmp_path, 'upstream: {bootstrap: ["a:1"]}\nlisteners: [{advertised_host: h, nodes: {"0": 9100}}]'
    )
    assert config.limits.frame_max_bytes == 104857600
    assert config.admin.bind == "127.0.0.1"
    assert config.policy.file is None


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        (
            '    nodes: {"0-9": 9100, "1001": 9200}\n',
            "",
            "5:5: listeners[0]",
            "`nodes`: missing; expected the ports of the nodes, or `nodes_by_name`",
        ),
        (
            "    tls: null",
            "    bootstrap_name: kafka.example",
            "9:5: listeners[0].bootstrap_name",
            "needs `nodes_by_name`",
        ),
        (
            "port: 9080",
            "prt: 9080",
            "10:26: admin.prt",
            "did you mean `port`? expected one of `bind`, `port`",
        ),
        ("upstream:", "upstreams:", "1:1: upstreams", "did you mean `upstream`?"),
        (
            "    advertised_host: localhost\n",
            "",
            "5:5: listeners[0]",
            "`advertised_host`: missing; expected the host name for clients, or `nodes_by_name`",
        ),
        (
            "port: 9080",
            "port: many",
            "10:26: admin.port",
            "expected a whole number >= 0 and <= 65535, got 'many'",
        ),
        (
            "port: 9080",
            "port: 70000",
            "10:26: admin.port",
            "expected a whole number >= 0 and <= 65535, got 70000",
        ),
        ('"kafka-0:9092"', '"kafka-0"', "upstream", "expected host:port, got 'kafka-0'"),
        ('"kafka-0:9092"', '"kafka..x:9092"', "upstream", "expected host:port, got 'kafka..x:9092'"),
        ("bootstrap: [", "bootstrap: [7, ", "2:15: upstream.bootstrap[0]", "expected a text, got 7"),
        (
            '"0-9": 9100',
            '"a-9": 9100',
            "listeners[0]",
            "expected a node id or a range such as \"0-9\", got 'a-9'",
        ),
        ('"0-9": 9100', '"9-0": 9100', "listeners[0]", "empty"),
        ('"1001": 9200', '"9-12": 9200', "listeners[0]", "node id 9 is in two ranges"),
        (
            '"1001": 9200',
            '"1001": 9105',
            "8:5: listeners[0].nodes",
            "port 9105 of node 1001 is that of node 5 too",
        ),
        ('"0-9": 9100', '"0-9": 65530', "listeners[0]", "beyond port 65535"),
        ('"0-9": 9100', '"0-2147483648": 9100', "listeners[0]", "node ids end at 2147483647"),
        ('"0-9": 9100', '"\u0663": 9100', "listeners[0]", "expected a node id"),
        (": localhost", ": 'localhost:9092'", "7:5: listeners[0].advertised_host", "expected a host name"),
        (": localhost", ": 'kafka-{id}.x'", "7:5: listeners[0].advertised_host", "expected a host name"),
        (
            ": localhost\n",
            ": localhost\n    advertised_port: 9443\n",
            "listeners[0]",
            "`advertised_port` needs {node_id} in `advertised_host`",
        ),
        ("- bind: 127.0.0.1", "- bind: '[::1]'", "5:5: listeners[0].bind", "expected a host name or an IP"),
        ("admin: {bind: 127.0.0.1", "admin: {bind: ''", "10:9: admin.bind", "expected a host name"),
        (
            "port: 9080",
            "port: 9105",
            "8:5: listeners[0].nodes",
            "port 9105 on 127.0.0.1 is that of `admin.port` too",
        ),
        ("workers: 1", "workers: 0", "12:1: workers", "expected a whole number >= 1 and <= 64, got 0"),
        (
            "    tls: null",
            "    tls: {certificat: a}",
            "9:11: listeners[0].tls.certificat",
            "did you mean `certificate`?",
        ),
        (
            "    tls: null",
            "    tls: {certificate: a}",
            "9:5: listeners[0].tls.key",
            "missing; expected a text",
        ),
        (
            "    tls: null",
            "    tls: {certificate: a, key: b, min_version: '1.1'}",
            "listeners[0].tls.min_version",
            "expected one of `1.2`, `1.3`",
        ),
        (
            "    tls: null",
            "    tls: {certificate: a, key: b, client_auth: required}",
            "listeners[0].tls",
            "`client_auth: required` needs `client_ca`",
        ),
        (
            "    tls: null",
            "    tls: {certificate: a, key: b, client_ca: c}",
            "listeners[0].tls",
            "`client_ca` needs `client_auth: required` or `optional`",
        ),
        (
            "    tls: null",
            "    proxy_protocol: {}",
            "9:5: listeners[0].proxy_protocol.trusted",
            "missing; expected a list that is not empty",
        ),
        (
            "    tls: null",
            "    proxy_protocol: {trusted: []}",
            "listeners[0].proxy_protocol.trusted",
            "expected a list that is not empty",
        ),
        (
            "    tls: null",
            "    proxy_protocol: {trusted: [10.0.0.7/8]}",
            "listeners[0].proxy_protocol",
            "expected an address or a network (CIDR): 10.0.0.7/8 has host bits set",
        ),
        (
            "    tls: null",
            "    proxy_protocol: {trusted: [balancer.example]}",
            "listeners[0].proxy_protocol",
            "'balancer.example' does not appear to be an IPv4 or IPv6 network",
        ),
        (
            "    tls: null",
            "    proxy_protocol: {trusted: ['::ffff:10.0.0.0/104']}",
            "listeners[0].proxy_protocol",
            "write an IPv4 network as one",
        ),
        (
            "    tls: null",
            "    proxy_protocol: {trusted: [10.0.0.0/8], timeout_s: 0}",
            "listeners[0].proxy_protocol.timeout_s",
            "expected a number",
        ),
        (
            "  tls: null\nl",
            "  tls: {certificate: a}\nl",
            "upstream.tls",
            "`certificate` and `key` belong together",
        ),
        (
            "  tls: null\nl",
            "  tls: {certificate: a, key: b}\nl",
            "upstream.tls",
            "say `clients_share_identity: true` if that is meant",
        ),
        (
            "  tls: null\nl",
            "  tls: {server_name: a, verify_hostname: false}\nl",
            "upstream.tls",
            "`server_name` is checked only with `verify_hostname: true`",
        ),
        (
            "  tls: null\nl",
            "  tls: {server_name: .x}\nl",
            "3:9: upstream.tls.server_name",
            "expected a host name",
        ),
        ("workers: 1", "journal: {path: ''}", "12:11: journal.path", "expected a text that is not empty"),
        (
            "workers: 1",
            "journal: {path: a, shared: true, keep_bytes: 100000000}",
            "12:34: journal.keep_bytes",
            "100000000 is less than two files of `file_max_bytes`",
        ),
        ("workers: 1", "workers: 2001-99-99", "12:10: workers", "not a valid timestamp: '2001-99-99'"),
        ("workers: 1", "workers: !!int x", "12:10: workers", "not a valid int: 'x'"),
        ("workers: 1", "workers: !!bool x", "12:10: workers", "not a valid bool: 'x'"),
        ("workers: 1", "workers: \0", "", "not valid YAML: unacceptable character"),
        ("workers: 1", "workers: &a [*a]", "", "aliases are not supported"),
        ("workers: 1", "spark: {path: x}", "12:1: spark", "unknown key"),
        ("workers: 1", "admin: {}", "12:1: admin", "given twice"),
        ("workers: 1", "workers: [", "13:1:", "not valid YAML"),
        ("workers: 1", "workers: !foo 1", "12:10:", "not valid YAML"),
        ("listeners:", "listeners: []\nx:", "4:1: listeners", "expected a list that is not empty"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, old, new, place, said):
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "epochgate.yaml"))
    assert place in message
    assert said in message


@pytest.mark.parametrize("text", ["", "[]", "just words"])
def test_a_file_that_is_no_mapping(tmp_path, text):
    with pytest.raises(ConfigError):
        load(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="can't be read"):
        load_config(tmp_path / "nowhere.yaml", {})


@pytest.mark.parametrize("bind", ["127.0.0.1", "0.0.0.0", "'::'"])  # noqa: S104  that is what it is about
def test_two_listeners_may_not_share_a_port(tmp_path, bind):
    listener = '{bind: %s, port: %d, advertised_host: h, nodes: {"0": %d}}'
    one, other = listener % ("127.0.0.1", 9092, 9100), listener % (bind, 9093, 9092)
    with pytest.raises(
        ConfigError, match=r"listeners\[1\].nodes: port 9092 on .* is that of `listeners\[0\].port` too"
    ):
        load(tmp_path, f'upstream: {{bootstrap: ["a:1"]}}\nlisteners: [{one}, {other}]')


def test_listeners_on_different_addresses_may_share_a_port(tmp_path):
    listener = '{bind: %s, port: 9092, advertised_host: h, nodes: {"0": 9100}}'
    one, other = listener % "127.0.0.1", listener % "127.0.0.2"
    assert load(tmp_path, f'upstream: {{bootstrap: ["a:1"]}}\nlisteners: [{one}, {other}]')


# -- environment variables -----------------------------------------------------------------------------------


def test_the_environment_overrides_scalars_and_lists_of_scalars(tmp_path):
    environment = {
        "EPOCHGATE_UPSTREAM__BOOTSTRAP": "a:1, b:2",
        "EPOCHGATE_ADMIN__PORT": "1234",
        "EPOCHGATE_LISTENERS__0__ADVERTISED_HOST": "proxy.example",
        "EPOCHGATE_LIMITS__FRAME_MAX_BYTES": "2048",
        "EPOCHGATE_POLICY__FILE": "null",
    }
    config = load(tmp_path, GOOD, environment)
    assert config.upstream.bootstrap == ("a:1", "b:2")
    assert config.admin.port == 1234
    assert config.listeners[0].advertised_host == "proxy.example"
    assert config.limits.frame_max_bytes == 2048
    assert config.policy.file is None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("EPOCHGATE_ADMIN__PRT", "1", "there is no key `admin.prt`"),
        ("EPOCHGATE_ADMIN__PORT", "x", "admin.port: expected a whole number"),
        ("EPOCHGATE_LISTENERS__7__PORT", "1", "the file has no `listeners[7]`"),
        ("EPOCHGATE_LISTENERS__0__NODES", "1", "there is no key"),
        ("EPOCHGATE_WORKERS", "0", "expected a whole number >= 1"),
        ("EPOCHGATE_WORKERS", "2001-99-99", "expected a whole number >= 1 and <= 64, got '2001-99-99'"),
    ],
)
def test_a_mistake_in_the_environment_is_named_with_its_variable(tmp_path, name, value, said):
    with pytest.raises(ConfigError, match=f"environment variable {name}") as caught:
        load(tmp_path, GOOD, {name: value})
    assert said in str(caught.value)


def test_what_kubernetes_sets_for_a_service_called_epochgate_is_ignored(tmp_path):
    environment = {"EPOCHGATE_PORT": "tcp://10.0.0.1:9092", "EPOCHGATE_SERVICE_HOST": "10.0.0.1"}
    assert load(tmp_path, GOOD, environment) == load(tmp_path, GOOD)


# -- the policy ----------------------------------------------------------------------------------------------


def test_the_policy_stands_beside_the_configuration(tmp_path):
    (tmp_path / "policy.yaml").write_text("rules:\n  - {group: g, mode: translate}\n")
    config = load(tmp_path, GOOD)
    policy = policy_of(config, tmp_path / "epochgate.yaml")
    assert policy.rule_for("g").mode is Mode.TRANSLATE
    assert policy.rule_for("h").mode is Mode.OBSERVE


def test_without_a_policy_every_group_is_observed(tmp_path):
    config = load(tmp_path, GOOD, {"EPOCHGATE_POLICY__FILE": "null"})
    assert policy_of(config, tmp_path / "epochgate.yaml") == Policy()


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("rules:\n  - {group: g}\n", "2:5: rules[0].mode", "missing; expected one of"),
        (
            "rules:\n  - {group: a, mode: translate, type: share}\n",
            "2:5: rules[0]",
            "a share group is never translated: `mode` has to be `observe` or `reject`",
        ),
        (
            "rules:\n  - {group: a, mode: observe, type: shared}\n",
            "2:31: rules[0].type",
            "expected one of `consumer`, `share`, `streams`",
        ),
        (
            "rules:\n  - {mode: translate}\n",
            "2:5: rules[0]",
            "exactly one of `group`, `groups` and `pattern`",
        ),
        ("rules:\n  - {pattern: '(', mode: translate}\n", "2:6: rules[0].pattern", "RE2"),
        ("rules:\n  - {group: g, mode: migrate}\n", "2:16: rules[0].mode", "got 'migrate'"),
        ("rules:\n  - {group: '', mode: translate}\n", "2:6: rules[0].group", "that is not empty"),
        (
            "assignors_allowed:\n  - mine\n  - stream\n",
            "3:5: assignors_allowed[1]",
            "`stream` is Kafka Streams, which is never translated",
        ),
        ("assignors_allowed: ['']\n", "1:21: assignors_allowed[0]", "that is not empty"),
        (
            "rules:\n  - {group: g, mode: translate, switch_pause_ms: 1000}\n",
            "2:33: rules[0].switch_pause_ms",
            "unknown",
        ),
        (
            "rules:\n  - {group: g, mode: translate, steps: [1, 50%, 10%]}\n",
            "2:33: rules[0].steps",
            "`steps` have to rise, numbers before shares: 10% comes after 50%",
        ),
        ("rules:\n  - {group: g, mode: translate, steps: []}\n", "2:33: rules[0].steps", "`steps` is empty"),
        (
            "rules:\n  - {group: g, mode: translate, steps: [half]}\n",
            "2:5: rules[0]",
            "nor a share such as 10%",
        ),
        (
            "rules:\n  - {group: g, mode: observe, steps: [1]}\n",
            "2:31: rules[0].steps",
            "`mode` has to be `translate`",
        ),
        ("rules:\n  - {group: g, mode: translate, hold_s: -1}\n", "2:33: rules[0].hold_s", ">= 0"),
        ("default: translat\n", "1:1: default", "expected one of `observe`, `translate`, `reject`"),
        ("rule: []\n", "1:1: rule", "did you mean `rules`?"),
    ],
)
def test_a_mistake_in_the_policy_is_named_with_its_place(tmp_path, text, place, said):
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_policy(file)
    assert f"{file}:{place}" in str(caught.value)
    assert said in str(caught.value)


def test_an_empty_policy_observes(tmp_path):
    (tmp_path / "policy.yaml").write_text("")
    assert load_policy(tmp_path / "policy.yaml") == Policy()


DOCUMENTS = (
    "rules: [{group: g, mode: translate, steps: [1, 10%], hold_s: 5}]\n",
    "a: [1, 1.5, true, null, ~, 2026-01-01, 0x1f, 1e3, 'yes', \"no\", plain text, '']\n",
    "a: |\n  text\n  more\nb: >-\n  folded\n  text\nc: !!str 1\nd: ! 1\n",
    "",
    "# nothing\n",
    "a: [1, 2\n",
    "a: &x 1\nb: *x\n",
    "a: 1\na: 2\n",
    "a: 1\n---\nb: 2\n",
    "{a: 2026-13-45}\n",
    "[" * 40 + "]" * 40,
)


@pytest.mark.parametrize("text", DOCUMENTS)
def test_a_document_reads_the_same_without_the_parser_in_c(text, monkeypatch):
    """PyYAML may have been built without it. What it says of a mistake may differ, not where that is."""

    def outcome():
        try:
            read = document.Document("file", text)
        except ConfigError as error:
            return str(error).split(" ")[0]
        return (
            read.value,
            {path: said.split(" ")[0] for path, said in read.unreadable.items()},
            {path: (mark.line, mark.column) for path, mark in read.marks.items()},
        )

    assert hasattr(yaml, "CSafeLoader"), "else this compares nothing"
    in_c = outcome()
    monkeypatch.setattr(document, "_Parser", yaml.SafeLoader)
    assert outcome() == in_c
