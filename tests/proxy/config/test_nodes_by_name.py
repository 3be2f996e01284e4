"""A listener with one port for all nodes: its keys, and what is refused."""

from pathlib import Path

import pytest

from proxy.config.loader import ConfigError, load_config
from proxy.config.schema import Listener

GOOD = """\
upstream: {bootstrap: ["kafka-0:9092"]}
listeners:
  - port: 9093
    nodes_by_name: b{node}.kafka.example
    bootstrap_name: Kafka.example
    node_ids: ["0-2", "7"]
    tls: {certificate: a.crt, key: a.key}
"""
IDS = '["0-2", "7"]'


def load(tmp_path: Path, text: str) -> Listener:
    file = tmp_path / "epochgate.yaml"
    file.write_text(text)
    return load_config(file, {}).listeners[0]


def test_a_good_listener(tmp_path):
    listener = load(tmp_path, GOOD)
    assert listener.server_names == {
        "kafka.example": None,
        **{f"b{node}.kafka.example": node for node in (0, 1, 2, 7)},
    }
    assert listener.node_ports == {}
    assert listener.host_of(7) == "b7.kafka.example"


def test_nodes_0_to_99_have_names_by_default(tmp_path):
    listener = load(tmp_path, GOOD.replace(f"    node_ids: {IDS}\n", ""))
    assert set(listener.node_ids_served) == set(range(100))


def test_the_id_may_be_anywhere_in_the_first_label(tmp_path):
    listener = load(tmp_path, GOOD.replace("b{node}.kafka", "x{node}-of-a"))
    assert listener.host_of(0) == "x0-of-a.example"


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        ("b{node}.kafka.example", "b.kafka.example", "4:5: listeners[0].nodes_by_name", "with {node} once"),
        ("b{node}.kafka.example", "b{node_id}.kafka.example", "4:5", "with {node} once, in its first label"),
        ("b{node}.kafka.example", "b.{node}.kafka.example", "4:5", "in its first label"),
        ("b{node}.kafka.example", "b{node}{node}.kafka.example", "4:5", "with {node} once"),
        ("b{node}.kafka.example", "b{node}.kafka.example.", "4:5", "expected a host name in ASCII"),
        ("b{node}.kafka.example", "b{node}.käfka.example", "4:5", "others in their form with `xn--`"),
        ("b{node}.kafka.example", "b{node}.kafka.example:9092", "4:5", "expected a host name"),
        ("b{node}.kafka.example", "10.0.0.{node}", "4:5", "in its first label"),
        ("b{node}.kafka.example", f"{'a' * 63}{{node}}.example", "4:5", "expected a host name"),
        ("Kafka.example", "10.0.0.1", "5:5: listeners[0].bootstrap_name", "no IP address"),
        (
            "Kafka.example",
            "B7.kafka.example",
            "5:5: listeners[0].bootstrap_name",
            "is the name of a node too",
        ),
        ("    bootstrap_name: Kafka.example\n", "", "listeners[0]", "needs `bootstrap_name`"),
        ("    tls: {certificate: a.crt, key: a.key}\n", "", "listeners[0]", "plaintext clients need `nodes`"),
        (IDS, '["0-2", "2"]', "6:5: listeners[0].node_ids", "'2' has a node id that is in another range"),
        (IDS, '["0..2"]', "6:5: listeners[0].node_ids", "expected a node id or a range"),
        (IDS, '["0-9999"]', "6:5: listeners[0].node_ids", "has more than 5000 ids"),
        (IDS, "[]", "listeners[0].node_ids", "a list that is not empty"),
        (
            "port: 9093",
            "advertised_host: a",
            "3:5: listeners[0].advertised_host",
            "there it is `bootstrap_name`",
        ),
        ("port: 9093", 'nodes: {"0": 1}', "3:5: listeners[0].nodes", "there it is `node_ids`"),
        (
            "    nodes_by_name: b{node}.kafka.example\n",
            "",
            "listeners[0]",
            "expected the host name for clients, or `nodes_by_name`",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, old, new, place, said):
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert place in str(caught.value)
    assert said in str(caught.value)
