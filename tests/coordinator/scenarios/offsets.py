"""Commits, and what becomes of them."""

from tests.coordinator.scenarios.registry import scenario
from tests.coordinator.script import Script


@scenario
def commits_are_fenced(s: Script) -> None:
    """Commits with the current, an older, a newer epoch (KIP-1251), by strangers, and in old versions."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = s.member("A"), s.member("B")
    s.commit("nobody", {"foo": {0: 1}}, epoch=5)
    s.commit("nobody", {"foo": {0: 1}}, epoch=5, version=8)
    a.join()
    a.commit({"foo": {0: 5}})
    a.commit({"foo": {0: 6}}, version=8)
    a.commit({"foo": {0: 7}}, epoch=a.epoch + 1)
    a.commit({"foo": {0: 7}}, epoch=1)
    a.commit({"foo": {0: 8}}, version=10)
    a.commit({"foo": {9: 8}, "missing": {0: 1}})
    s.commit("nobody", {"foo": {0: 1}})
    s.commit("stranger", {"foo": {0: 1}}, epoch=a.epoch, member_id="who")
    b.join()
    a.settle()
    b.settle()
    s.describe()
    a.commit({"foo": {0: 9}}, epoch=2)
    a.commit({"foo": {3: 9}}, epoch=2)
    a.commit({"foo": {0: 10, 3: 9}}, epoch=2)
    b.commit({"foo": dict.fromkeys(b.assigned.get("foo", []), 11)}, epoch=2)
    s.offsets()
    s.offsets({"foo": [0, 3]}, member=(a.member_id, a.epoch))
    s.offsets({"foo": [0, 3]}, member=(a.member_id, a.epoch - 1))
    s.offsets({"foo": [0, 3]}, member=("who", a.epoch))
    s.offsets({"foo": [0, 3]}, version=8)
    s.offsets({"foo": [0]}, version=10)
    s.commit("A", {"foo": {0: 3}}, epoch=a.epoch, member_id=a.member_id, metadata="x" * 5000)


@scenario
def commits_while_revoking(s: Script) -> None:
    """A member still commits for partitions that it is giving up."""
    s.topic("foo", 4)
    s.configure(interval=0)
    a, b = s.member("A"), s.member("B")
    a.join()
    b.join()
    a.beat()
    a.commit({"foo": {0: 1, 3: 1}})
    a.ack()
    a.commit({"foo": {0: 2}}, epoch=2)
    a.commit({"foo": {3: 2}}, epoch=2)
    s.offsets()


@scenario
def offsets_are_deleted(s: Script) -> None:
    """Offsets of subscribed topics stay; those of others and of empty groups go."""
    s.topic("foo", 2)
    s.topic("bar", 2)
    s.configure(interval=0)
    s.delete_offsets({"foo": [0]})
    s.commit("admin", {"foo": {0: 1}, "bar": {0: 1, 1: 2}})
    s.list()
    s.describe_classic()
    a = s.member("A")
    a.join()
    s.delete_offsets({"foo": [0], "bar": [0], "missing": [0]})
    s.offsets()
    s.delete_group()
    a.leave()
    s.list()
    s.delete_offsets({"foo": [0]})
    s.offsets()
    s.delete_group()
    s.delete_group()
    s.list()
    s.offsets()
    s.describe()
