"""The plan from one configuration to another: which steps, what they are called, and what needs a restart."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from proxy.config.network import matched
from proxy.config.schema import Config, Listener
from proxy.reload.config_plan import Kind, Plan, kind_of, plan_of, reloaded_keys

NODES = {"0-9": 9100}
BROKERS = {"bootstrap.servers": "kafka:9092"}
KAFKA = BROKERS | {"sasl.password": "kept-secret"}
CLIENTS_WITH_CERTIFICATES = {
    "identity": "mapped",
    "tls": {"certificate": "c", "key": "k", "client_ca": "a", "client_auth": "required"},
}


def listener(**keys: Any) -> dict[str, Any]:
    return {"advertised_host": "localhost", "nodes": NODES, **keys}


def config(*listeners: dict[str, Any], **sections: Any) -> Config:
    upstream = {"bootstrap": ["kafka:9092"]}
    value = {"upstream": upstream, "listeners": list(listeners) or [listener()], **sections}
    return msgspec.convert(value, Config)


def plan(old: dict[str, Any], new: dict[str, Any]) -> Plan:
    """The plan between configurations with these sections."""
    return plan_of(config(**old), config(**new))


def of_listeners(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Plan:
    return plan_of(config(*old), config(*new))


def kinds(found: Plan) -> list[tuple[Kind, str]]:
    return [(step.kind, step.key) for step in found.steps]


def section(info: Any) -> inspect.StructType | None:
    """The section that a key may have, or that its list has."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.StructType):
        return info
    inner = info.types if isinstance(info, inspect.UnionType) else ()
    return next(filter(None, map(section, inner)), None)


def keys(info: inspect.StructType, prefix: str = "") -> list[str]:
    """Every key below a section, with those of sections themselves."""
    found = []
    for field in info.fields:
        found.append(f"{prefix}{field.encode_name}")
        if (inner := section(field.type)) is not None:
            found += keys(inner, f"{found[-1]}.")
    return found


KEYS = [key for key in keys(inspect.type_info(Config)) if key != "listeners"]
OF_LISTENERS = [field.name for field in msgspec.structs.fields(Listener)]


@pytest.mark.parametrize("key", KEYS)
def test_every_key_is_known_to_be_changed_in_some_way(key: str) -> None:
    kind, text = kind_of(key)
    assert (kind is Kind.RESTART) == text.startswith("needs a restart: ")


def test_every_name_in_the_tables_is_a_key() -> None:
    assert set(reloaded_keys()) <= set(KEYS)
    assert [kind_of(key)[0] for key in reloaded_keys()].count(Kind.RESTART) == 0


VALUES: dict[str, tuple[dict[str, Any], dict[str, Any], Kind]] = {
    "advertised_host": ({}, {"advertised_host": "elsewhere"}, Kind.ADDRESSES),
    "advertised_port": (
        {"advertised_host": "b{node_id}"},
        {"advertised_host": "b{node_id}", "advertised_port": 9},
        Kind.ADDRESSES,
    ),
    "nodes": ({}, {"nodes": {"0-10": 9100}}, Kind.PORTS),
    "proxy_protocol": ({}, {"proxy_protocol": {"trusted": ["10.0.0.1"]}}, Kind.CONNECTIONS),
    "tls": ({}, {"tls": {"certificate": "c", "key": "k"}}, Kind.CONNECTIONS),
    "identity": ({}, {"identity": "none"}, Kind.CONNECTIONS),
    "principal_mapping_rules": (
        CLIENTS_WITH_CERTIFICATES,
        {**CLIENTS_WITH_CERTIFICATES, "principal_mapping_rules": "RULE:a/b/"},
        Kind.CONNECTIONS,
    ),
}
BY_NAME: dict[str, Any] = {
    "nodes_by_name": "b{node}.example",
    "bootstrap_name": "kafka.example",
    "tls": {"certificate": "c", "key": "k"},
}
NAMES: dict[str, tuple[dict[str, Any], dict[str, Any], Kind]] = {
    "nodes_by_name": (BY_NAME, {**BY_NAME, "nodes_by_name": "n{node}.example"}, Kind.PORTS),
    "bootstrap_name": (BY_NAME, {**BY_NAME, "bootstrap_name": "k.example"}, Kind.PORTS),
    "node_ids": (BY_NAME, {**BY_NAME, "node_ids": ["0-9"]}, Kind.PORTS),
}


@pytest.mark.parametrize("name", OF_LISTENERS)
def test_every_key_of_a_listener_has_its_kind(name: str) -> None:
    if name in ("bind", "port"):
        return  # see test_another_port_is_another_listener
    if name in VALUES:
        old, new, kind = VALUES[name]
        found = of_listeners([listener(**old)], [listener(**new)])
    else:
        old, new, kind = NAMES[name]
        found = of_listeners([old], [new])
    assert kinds(found) == [(kind, f"listeners[0].{name}")]


def test_another_port_is_another_listener() -> None:
    found = of_listeners([listener()], [listener(port=9093, nodes={"0": 9200})])
    assert kinds(found) == [
        (Kind.LISTENER_CLOSED, "listener 0.0.0.0:9092"),
        (Kind.LISTENER_OPENED, "listeners[0]"),
    ]
    assert found.verdict == "2 changes are made without a restart"


TEXTS = st.sampled_from(["kafka:9092", "other:9092"])
SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "limits": st.fixed_dictionaries({"idle_timeout_s": st.integers(1, 3)}),
        "log": st.fixed_dictionaries({"level": st.sampled_from(["debug", "info"])}),
        "drain": st.fixed_dictionaries({"grace_s": st.integers(0, 2)}),
        "workers": st.integers(1, 3),
        "hook": st.fixed_dictionaries({"url": st.sampled_from(["https://a/kept-secret", "https://b"])}),
        "identity": st.fixed_dictionaries(
            {"allow": st.sampled_from([["a"], ["b"]])}, optional={"principals": st.integers(1, 3)}
        ),
        "fleet": st.fixed_dictionaries(
            {
                "kafka": st.sampled_from([KAFKA, KAFKA | {"sasl.password": "another-kept-secret"}]),
                "topic": st.sampled_from(["a", "b"]),
            }
        ),
        "exporter": st.fixed_dictionaries({"port": st.integers(1, 3)}),
    },
)
LISTENERS = st.lists(
    st.builds(
        lambda port, first, last, host: listener(
            port=port, nodes={f"0-{last}": port and first + 100 * port}, advertised_host=host
        ),
        st.integers(0, 4),
        st.integers(9100, 9102),
        st.integers(0, 3),
        st.sampled_from(["a", "b"]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one["port"] or id(one),
)


@given(SECTIONS, LISTENERS)
def test_nothing_is_to_be_done_for_the_same(sections: Any, listeners: Any) -> None:
    found = plan_of(config(*listeners, **sections), config(*listeners, **sections))
    assert found.steps == ()
    assert found.verdict == "no difference"


@given(SECTIONS, SECTIONS, LISTENERS, LISTENERS)
def test_a_difference_has_steps_and_secrets_are_in_none(old: Any, new: Any, before: Any, after: Any) -> None:
    one, other = config(*before, **old), config(*after, **new)
    found = plan_of(one, other)
    assert bool(found.steps) or one == other or sorted(before, key=str) == sorted(after, key=str)
    assert "kept-secret" not in str(found)
    assert all(step.listener is not None for step in found.steps if step.key.startswith("listener"))


@given(SECTIONS, LISTENERS, st.randoms())
def test_listeners_in_another_order_are_the_same(sections: Any, listeners: Any, random: Any) -> None:
    with_ports = [one for one in listeners if one["port"]] or [listener()]
    mixed = random.sample(with_ports, len(with_ports))
    assert plan_of(config(*with_ports, **sections), config(*mixed, **sections)).steps == ()


@pytest.mark.parametrize(
    ("old", "new", "kind", "key", "text"),
    [
        (
            {},
            {"upstream": {"bootstrap": ["a:1"]}},
            Kind.UPSTREAM,
            "upstream.bootstrap",
            ('["kafka:9092"] -> ["a:1"]: connections to brokers are opened with it from now on; those that are open '
            "stay"),
        ),
        (
            {},
            {"upstream": {"bootstrap": ["kafka:9092"], "tls": {}}},
            Kind.UPSTREAM,
            "upstream.tls",
            "added: connections to brokers are opened with it from now on; those that are open stay",
        ),
        (
            {},
            {"limits": {"session_timeout_min_ms": 1000}},
            Kind.RESTART,
            "limits.session_timeout_min_ms",
            "6000 -> 1000: needs a restart: members in the member log are bound by it",
        ),
        (
            {"limits": {"connection_max_age_s": 60}},
            {},
            Kind.LIMITS,
            "limits.connection_max_age_s",
            "60.0 -> null: connections are bound by it from now on",
        ),
        (
            {},
            {"log": {"level": "debug"}},
            Kind.LOG,
            "log.level",
            '"info" -> "debug": lines are written by it from now on',
        ),
        (
            {},
            {"drain": {"grace_s": 5}},
            Kind.DRAIN,
            "drain.grace_s",
            "20.0 -> 5.0: a drain that begins from now on has this time",
        ),
        (
            {"identity": {"allow": ["a"]}},
            {"identity": {"allow": ["b"]}},
            Kind.ACCOUNT,
            "identity.allow",
            '["a"] -> ["b"]: clients that connect from now on are identified by it',
        ),
        (
            {"identity": {"allow": ["a"]}},
            {"identity": {"allow": ["a"], "principals": 5}},
            Kind.RESTART,
            "identity.principals",
            "10000 -> 5: needs a restart: the tokens of a running process are counted by it",
        ),
        (
            {},
            {"identity": {"allow": ["a"]}},
            Kind.RESTART,
            "identity",
            "added: needs a restart: it is set up at the start",
        ),
        (
            {"fleet": {"kafka": KAFKA}},
            {},
            Kind.RESTART,
            "fleet",
            "removed: needs a restart: the member log is opened at the start",
        ),
        (
            {"fleet": {"kafka": KAFKA}},
            {"fleet": {"kafka": KAFKA | {"sasl.password": "b"}}},
            Kind.ACCOUNT,
            "fleet.kafka.sasl.password",
            "the proxy authenticates with it from now on",
        ),
        (
            {"fleet": {"kafka": KAFKA}},
            {"fleet": {"kafka": BROKERS, "kafka_files": {"sasl.password": "/b"}}},
            Kind.ACCOUNT,
            "fleet.kafka_files.sasl.password",
            "the proxy authenticates with it from now on",
        ),
        (
            {"fleet": {"kafka": KAFKA}},
            {"fleet": {"kafka": KAFKA | {"sasl.username": "b"}}},
            Kind.RESTART,
            "fleet.kafka.sasl.username",
            "needs a restart: librdkafka takes it only when a client is made",
        ),
        (
            {"fleet": {"kafka": KAFKA}},
            {"fleet": {"kafka": KAFKA | {"security.protocol": "SSL"}}},
            Kind.RESTART,
            "fleet.kafka.security.protocol",
            "needs a restart: librdkafka takes it only when a client is made",
        ),
        (
            {"identity": {"allow": ["a"], "account": {"username": "a", "password_file": "p"}}},
            {"identity": {"allow": ["a"], "account": {"username": "b", "password_file": "p"}}},
            Kind.ACCOUNT,
            "identity.account.username",
            '"a" -> "b": the proxy authenticates with it from now on',
        ),
        (
            {"identity": {"allow": ["a"]}},
            {"identity": {"allow": ["a"], "account": {"username": "b", "password_file": "p"}}},
            Kind.RESTART,
            "identity.account",
            "added: needs a restart: it is set up at the start",
        ),
        (
            {"fleet": {"kafka": KAFKA}},
            {"fleet": {"kafka": KAFKA, "topic": "t"}},
            Kind.RESTART,
            "fleet.topic",
            '"__epochgate_members" -> "t": needs a restart: the member log is opened at the start',
        ),
        (
            {"hook": {"url": "https://a/kept"}},
            {"hook": {"url": "https://a/secret"}},
            Kind.RESTART,
            "hook.url",
            "another value: needs a restart: it is set up at the start",
        ),
        ({}, {"workers": 2}, Kind.RESTART, "workers", "1 -> 2: needs a restart: ports are shared by their number"),
        ({}, {"exporter": {}}, Kind.UNUSED, "exporter", "added: `epochgate run` does not use it"),
    ],
)  # fmt: skip
def test_a_step_says_what_changes_and_what_that_does(
    old: Any, new: Any, kind: Kind, key: str, text: str
) -> None:
    (step,) = plan(old, new).steps
    assert (step.kind, str(step)) == (kind, f"{key}: {text}")


def test_a_long_value_is_cut() -> None:
    found = plan({}, {"upstream": {"bootstrap": [f"kafka-{n}:9092" for n in range(50)]}})
    shown = found.steps[0].text.partition(" -> ")[2].partition("…")[0]
    assert len(shown) == 60
    assert shown.startswith('["kafka-0:9092","kafka-1:9092",')


def test_one_restart_leaves_all_undone() -> None:
    found = plan({}, {"workers": 2, "experimental": True, "log": {"level": "debug"}})
    assert [step.key for step in found.restarts] == ["workers", "experimental"]
    assert found.verdict == "nothing would be changed: 2 of 3 changes need a restart"
    assert plan({}, {"log": {"level": "debug"}}).verdict == "1 change is made without a restart"


def listeners(*ports: int, bind: str = "0.0.0.0") -> list[Listener]:  # noqa: S104  nothing is bound
    return [msgspec.convert(listener(port=port, bind=bind), Listener) for port in ports]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((1, 2), (2, 1), [1, 0]),
        ((1, 2), (2, 3), [1, None]),
        ((1,), (1, 1), [0, None]),
        ((0, 0), (0, 0, 0), [0, 1, None]),
        ((0, 1, 0), (1, 0), [1, 0]),
        ((), (1,), [None]),
    ],
)
def test_a_listener_is_continued_by_the_one_with_its_address(old: Any, new: Any, expected: Any) -> None:
    assert matched(listeners(*old), listeners(*new)) == expected


def test_a_port_at_another_address_is_another_listener() -> None:
    assert matched(listeners(1), listeners(1, bind="127.0.0.1")) == [None]


def test_keys_have_the_numbers_of_the_new_file() -> None:
    first, second, third = (listener(port=n, nodes={"0": n + 100}) for n in (1, 2, 3))
    found = of_listeners([first, second, third], [{**third, "advertised_host": "b"}, second])
    assert kinds(found) == [
        (Kind.LISTENER_CLOSED, "listener 0.0.0.0:1"),
        (Kind.ADDRESSES, "listeners[0].advertised_host"),
    ]
    assert [step.listener for step in found.steps] == [0, 0]


def text_of_nodes(old: dict[str, int], new: dict[str, int]) -> str:
    (step,) = of_listeners([listener(nodes=old)], [listener(nodes=new)]).steps
    assert step.kind is Kind.PORTS
    return step.text.rpartition(": ")[2]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ({"0": 1}, {"0": 1, "1": 2}, "node 1 on 2 opened"),
        ({"0": 1}, {"0-9": 1}, "nodes 1-9 on 2-10 opened"),
        ({"0": 1}, {"0": 1, "2-3": 12, "5": 8, "6": 20}, "nodes 2-3 on 12-13, node 5 on 8, node 6 on 20 opened"),
        ({"0-2": 1}, {"0": 1}, "nodes 1-2 on 2-3 closed, where connections end at their next moment of rest"),
        (
            {"0": 1, "1": 5},
            {"0": 1, "1": 6},
            "node 1 on 6 opened; node 1 on 5 closed, where connections end at their next moment of rest",
        ),
        ({"0": 0}, {"0-2": 0}, "nodes 1-2 on free ports opened"),
        ({"0": 0}, {"0-1": 0}, "node 1 on a free port opened"),
        ({"0": 0}, {"0": 0, **{f"{n}": 20_000 - n for n in range(1, 99)}},
         "node 1 on 19999, node 2 on 19998, node 3 on 19997, node 4 on… opened"),
    ],
)  # fmt: skip
def test_nodes_are_named_with_their_ports(old: Any, new: Any, text: str) -> None:
    assert text_of_nodes(old, new) == text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (listener(nodes={"0-3": 9100}), listener(nodes={"0-1": 9100, "2": 9102, "3": 9103})),
        ({**BY_NAME, "node_ids": ["0-3"]}, {**BY_NAME, "node_ids": ["0-1", "2-3"]}),
    ],
)
def test_the_same_nodes_in_other_ranges_are_no_change(old: Any, new: Any) -> None:
    assert of_listeners([old], [new]).steps == ()


A, B = listener(port=1, nodes={"0-1": 11}), listener(port=2, nodes={"0-1": 21})


@pytest.mark.parametrize(
    ("old", "new", "key", "port"),
    [
        pytest.param([A], [{**A, "nodes": {"1-2": 11}}], "listeners[0]", 11, id="another node"),
        pytest.param([A, B], [A, {**B, "nodes": {"0": 12}}], "listeners[1]", 12, id="another listener's node"),
        pytest.param([A], [listener(port=12, nodes={"0": 13})], "listeners[0]", 12, id="node to bootstrap"),
        pytest.param([A, B], [{**A, "nodes": {"0": 2}}], "listeners[0]", 2, id="bootstrap to node"),
        pytest.param([A], [{**A, "port": 3}], "listeners[0]", 11, id="the same nodes of another listener"),
        pytest.param([A], [{**A, "bind": "127.0.0.1"}], "listeners[0]", 1, id="from all addresses to one"),
        pytest.param([{**A, "bind": "127.0.0.1"}], [A], "listeners[0]", 1, id="from one address to all"),
    ],
)  # fmt: skip
def test_a_port_is_only_after_a_restart_that_of_something_else(
    old: Any, new: Any, key: str, port: int
) -> None:
    (found,) = of_listeners(old, [one for one in new if one not in old or one in (A, B)]).restarts
    text = f"needs a restart: port {port} is open for another node or listener"
    assert (found.key, found.text) == (key, text)


def test_a_port_at_another_address_can_be_opened() -> None:
    one, other = ({**A, "bind": f"127.0.0.{n}"} for n in (1, 2))
    assert of_listeners([one], [other]).restarts == ()
