"""Groups that have no other protocol to move to: a seeded journal of them, and what it says, without Spark.

The checker is written against docs/how-to/pipeline.md and docs/reference/journal.md, another way than the job: it goes
through the events one by one and keeps what a reader would write on a sheet of paper.
"""

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.pipeline.migration import START_US, S

Event = dict[str, Any]
CALLS = {"joined", "assigned", "revoked", "adopted", "rejoined_after_loss"}
ENDS = {"left", "fenced", "session_expired", "rebalance_expired"}
OTHERS = {"share", "streams", "connect"}
GROUPS = {
    "share-0": "share",
    "share-1": "share",
    "streams-0": "streams",
    "connect-0": "connect",
    "connect-1": "connect",
}
REPLICAS = ("proxy-0", "proxy-1")
ROLES = ("active", "standby", "warm_up")


class Journal:
    """What two replicas write of five groups whose members come, go, move to the other replica and rebalance."""

    def __init__(self, seed: int, steps: int = 400) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a model, no secret
        self.events: list[Event] = []
        self._seqs = dict.fromkeys(REPLICAS, 0)
        self._now_us = START_US
        self._members: dict[str, list[dict[str, Any]]] = {group: [] for group in GROUPS}
        self._made = 0
        for _ in range(steps):
            group = self.random.choice(list(GROUPS))
            self.random.choice((self.join, self.rejoin, self.move, self.end))(group)

    def write(self, member: dict[str, Any], kind: str, replica: str | None = None, **fields: Any) -> None:
        """An event of a member, by its replica if no other is named."""
        replica = replica or member["replica"]
        self._now_us += self.random.randint(1, 5 * S)
        self._seqs[replica] += 1
        event = {
            "v": 1, "replica": replica, "boot": "other", "seq": self._seqs[replica], "time_us": self._now_us,
            "kind": kind, "group": member["group"], "mode": "observe", "protocol": member["protocol"],
            "member": member["id"], "instance": None, "client_id": "app", "client_host": "10.0.0.7",
            "software": "apache-kafka-java/4.4.0", "generation": 1, "epoch": 1, "state": member["state"],
            "previous_state": "", "partitions": [], "owned": member["owned"], "reason": "",
        } | fields  # fmt: skip
        if member["worker"] is not None:
            event["worker"] = member["worker"]
        self.events.append(event)

    def join(self, group: str) -> None:
        """A new member."""
        self._made += 1
        member = {
            "group": group, "id": f"{group}-m{self._made}", "replica": self.random.choice(REPLICAS),
            "protocol": GROUPS[group], "state": "Stable", "owned": [], "worker": None,
        }  # fmt: skip
        if member["protocol"] == "connect":
            member["worker"] = {"url": f"http://w{self._made}:8083/", "config_offset": self._made}
        self._members[group].append(member)
        self._pass(member, "CompletingRebalance")

    def rejoin(self, group: str) -> None:
        """A member joins again: what it has, and what the leader says, may be another."""
        if self._members[group]:
            member = self.random.choice(self._members[group])
            self.change(member, "PrepareRebalance")
            self._pass(member, "CompletingRebalance")

    def move(self, group: str) -> None:
        """A client goes on to the other replica, which sees a Heartbeat first; the old one may notice late."""
        if not self._members[group]:
            return
        member = self.random.choice(self._members[group])
        former = member["replica"]
        member["replica"] = next(name for name in REPLICAS if name != former)
        unknown = "classic" if member["protocol"] == "connect" else member["protocol"]
        worker, member["worker"] = member["worker"], None
        self.write(member, "adopted", protocol=unknown, owned=None)
        what_next = self.random.random()
        if what_next < 0.2:  # and it ends before more is known of it
            self._members[group].remove(member)
            self.write(member, "session_expired", protocol=unknown, owned=[], state="")
            return
        member["worker"] = worker
        if what_next < 0.6:
            self.write(member, "session_expired", former, owned=[], state="")
        if what_next > 0.4:
            self.rejoin(group)

    def end(self, group: str) -> None:
        """A member ends."""
        if self._members[group] and self.random.random() < 0.5:
            member = self._members[group].pop()
            self.write(member, self.random.choice(sorted(ENDS)), owned=[], state="")

    def change(self, member: dict[str, Any], state: str) -> None:
        """A change of state."""
        member["state"] = state
        self.write(member, "state_changed")

    def _pass(self, member: dict[str, Any], through: str) -> None:
        """JoinGroup and SyncGroup, or what is like these."""
        if member["protocol"] == "share":
            member["state"] = "Stable"
        else:
            self.change(member, through)
        self.write(member, "joined")
        member["owned"] = self._assignment(member["protocol"])
        if member["worker"] is not None:
            leader = self.random.choice(self._members[member["group"]])
            delay_ms = self.random.choice((0, 0, 300_000))
            told = {"leader": leader["id"], "leader_url": f"http://{leader['id']}/", "delay_ms": delay_ms}
            member["worker"] = member["worker"] | told
        self.write(member, "assigned")
        self.change(member, "Stable")

    def _assignment(self, protocol: str) -> list[dict[str, Any]]:
        numbers = sorted(self.random.sample(range(6), self.random.randrange(4)))
        if not numbers:
            return []
        if protocol == "share":
            return [{"topic": "orders", "id": "id-orders", "partitions": numbers}]
        if protocol == "connect":
            return [{"topic": "sink", "id": None, "partitions": [-1, *numbers], "role": "connect"}]
        role = self.random.choice(ROLES)
        return [{"topic": "0", "id": None, "partitions": numbers, "role": role}]

    def save(self, folder: Path) -> None:
        """Write it in files whose lines are in no order, some of them twice."""
        folder.mkdir(parents=True, exist_ok=True)
        for replica in REPLICAS:
            lines = [json.dumps(event) for event in self.events if event["replica"] == replica]
            lines += self.random.sample(lines, len(lines) // 20)
            self.random.shuffle(lines)
            (folder / f"{replica}.other.1.jsonl").write_text("".join(f"{line}\n" for line in lines))


def groups(events: list[Event]) -> dict[str, dict[str, Any]]:
    """The table `other_groups`, from events in order."""
    now_us = max(event["time_us"] for event in events)
    found = {}
    for group, of_group in _by(events, "group").items():
        ever = _members_ever(of_group)
        if not ever:
            continue
        here = [one for one in ever.values() if one["present"]]
        newest = max(ever.values(), key=lambda one: (one["updated_us"], one["member"]))
        row = {"protocol": newest["protocol"], "members": len(here), "ended_members": len(ever) - len(here)}
        row |= {"rebalances": _rebalances(of_group), "updated_us": newest["updated_us"]}
        found[group] = (
            row | _assigned(newest["protocol"], here) | _connect(newest["protocol"], ever, here, now_us)
        )
    return found


def members(events: list[Event]) -> dict[tuple[str, str], dict[str, Any]]:
    """The table `other_members` without what is copied from the newest event."""
    found = {}
    for group, of_group in _by(events, "group").items():
        for name, one in _members_ever(of_group).items():
            if one["present"]:
                worker = one["worker"]
                found[group, name] = {
                    "protocol": one["protocol"],
                    "state": one["state"],
                    "updated_us": one["updated_us"],
                    "assignment": _flat(one["owned"]),
                    "url": worker and worker["url"],
                    "config_offset": worker and worker["config_offset"],
                    "is_leader": worker and worker["leader"] == name,
                }
    return found


def _members_ever(events: list[Event]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, of_member in _by(events, "member").items():
        one: dict[str, Any] = {
            "protocol": None,
            "owned": None,
            "worker": None,
            "longest_ms": 0,
            "member": name,
        }
        server = None
        for event in of_member:
            process = event["replica"], event["boot"]
            if event["kind"] in CALLS:
                server = process
            if server not in (None, process):
                continue
            if event["protocol"] in OTHERS:
                one["protocol"] = event["protocol"]
            elif event["kind"] not in {"adopted", *ENDS}:
                continue
            one |= {
                "present": event["kind"] not in ENDS,
                "updated_us": event["time_us"],
                "state": event["state"],
            }
            if event["owned"] is not None:
                one["owned"] = event["owned"]
            worker = event.get("worker")
            if worker is not None:
                if worker != one["worker"]:
                    one["told_us"] = event["time_us"]
                one["worker"] = worker
                one["longest_ms"] = max(one["longest_ms"], worker.get("delay_ms", 0))
        if one["protocol"] is not None:
            found[name] = one
    return found


def _rebalances(events: list[Event]) -> int:
    """How often the first of all members left Stable."""
    unstable: set[str] = set()
    count = 0
    for event in events:
        if event["kind"] in ENDS or (event["kind"] == "state_changed" and event["state"] == "Stable"):
            unstable.discard(event["member"])
        elif event["kind"] == "state_changed":
            count += not unstable
            unstable.add(event["member"])
    return count


def _assigned(protocol: str, here: list[dict[str, Any]]) -> dict[str, int | None]:
    parts = [(one["member"], *part) for one in here for part in _flat(one["owned"])]
    counted = {
        "partitions": ("share", len({part[1:3] for part in parts})),
        **{f"{role}_tasks": ("streams", sum(part[3] == role for part in parts)) for role in ROLES},
        "connectors": ("connect", sum(part[2] == -1 for part in parts)),
        "tasks": ("connect", sum(part[2] != -1 for part in parts)),
    }
    return {name: count if of == protocol else None for name, (of, count) in counted.items()}


def _connect(
    protocol: str, ever: dict[str, dict[str, Any]], here: list[dict[str, Any]], now_us: int
) -> dict[str, Any]:
    if protocol != "connect":
        return dict.fromkeys(("leader", "leader_url", "waiting_until_us", "longest_delay_ms"))
    told = [one for one in here if (one["worker"] or {}).get("leader_url")]
    row: dict[str, Any] = {"leader": None, "leader_url": None, "waiting_until_us": None}
    if told:
        last = max(told, key=lambda one: (one["updated_us"], one["member"]))
        until_us = last["told_us"] + last["worker"]["delay_ms"] * 1000
        waits = last["worker"]["delay_ms"] > 0 and until_us > now_us
        row = {"leader": last["worker"]["leader"], "leader_url": last["worker"]["leader_url"]}
        row["waiting_until_us"] = until_us if waits else None
    return row | {"longest_delay_ms": max(one["longest_ms"] for one in ever.values())}


def _flat(owned: list[dict[str, Any]] | None) -> list[tuple[str, int, str | None]]:
    return [(one["topic"], number, one.get("role")) for one in owned or () for number in one["partitions"]]


def _by(events: list[Event], field: str) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event[field]:
            found[event[field]].append(event)
    return found
