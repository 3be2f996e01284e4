"""Requests that are refused, and lists."""

from tests.coordinator.scenarios.registry import scenario
from tests.coordinator.script import Script


@scenario
def groups_are_listed(s: Script) -> None:
    """By state and type, without looking at case."""
    s.topic("foo", 1)
    s.configure(interval=0)
    a = s.member("A")
    a.join()
    s.list(states=("stable",))
    s.list(states=("Empty",))
    s.list(types=("CONSUMER",))
    s.list(types=("classic",))
    s.list(types=("nonsense",))
    s.list(states=("STABLE ", "Assigning"), types=("consumer", "classic"))
    a.leave()
    s.list(states=("Empty",))
    s.describe_classic()
    s.describe_classic(5)


@scenario
def requests_are_checked(s: Script) -> None:
    """What is refused before any group is looked at, in Kafka's order."""
    s.topic("foo", 1)
    a = s.member("A")
    names = a._names()
    full = a._full({})
    nameless = s.member("", version=1)
    nameless.member_id = ""
    nameless.heartbeat("has no id", 0, **full)
    a.instance_id = ""
    a.heartbeat("has an empty instance id", 0, **full)
    a.instance_id = " "
    a.heartbeat("has a blank instance id", 0, **full)
    a.instance_id = None
    a.heartbeat("has a blank rack", 0, **full | {"rack_id": ""})
    a.heartbeat("says no timeout", 0, **full | {"rebalance_timeout_ms": -1})
    a.heartbeat("says no owned partitions", 0, **full | {"topic_partitions": None})
    a.heartbeat("owns already", 0, **full | {"topic_partitions": a._owned({"foo": [0]})})
    a.heartbeat("subscribes to nothing", 0, **full | {"subscribed_topic_names": None})
    a.heartbeat("is at epoch -3", -3)
    a.heartbeat("leaves for a while", -2)
    a.heartbeat("wants a strange assignor", 0, **full | {"server_assignor": "x"})
    a.heartbeat(
        "wants it and is wrong otherwise", 0, **full | {"server_assignor": "x", "rebalance_timeout_ms": -1}
    )
    a.heartbeat("leaves what is not there", -1)
    a.heartbeat("beats in no group", 1)
    a.heartbeat(
        "has a bad expression", 0, **full | {"subscribed_topic_names": None, "subscribed_topic_regex": "(("}
    )
    a.heartbeat(
        "joins with an empty expression",
        0,
        **full | {"subscribed_topic_names": (), "subscribed_topic_regex": ""},
    )
    a.heartbeat("repeats a topic", 2, subscribed_topic_names=(*(names or ()), *(names or ())))
    s.describe()
    old = s.member("old", version=0)
    old.member_id = ""
    old.heartbeat("has no id in v0", 0, **{k: v for k, v in full.items() if k != "subscribed_topic_regex"})
