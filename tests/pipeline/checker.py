"""The audit once more, written against docs/how-to/pipeline.md without Spark and without the pipeline's code.

Another approach on purpose: the whole journal in memory, one partition at a time, every pair of holds compared.
"""

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

Event = dict[str, Any]
CALLS = {"joined", "assigned", "revoked", "adopted", "rejoined_after_loss"}
ENDS = {"left", "fenced", "session_expired", "rebalance_expired"}


def read(folder: Path) -> list[Event]:
    """Every event once, in the order of the clocks."""
    by_identity = {}
    for file in sorted(folder.rglob("[!_]*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            by_identity[event["replica"], event["boot"], event["seq"]] = event
    return sorted(by_identity.values(), key=lambda e: (e["time_us"], e["replica"], e["boot"], e["seq"]))


class Check:
    """What a journal says; ``overlaps`` as (group, topic, partition, first, second, from, until, class)."""

    def __init__(self, events: list[Event], skew_us: int) -> None:
        self.skew_us = skew_us
        self.last: dict[tuple[str, str], int] = {}
        self.proofs: dict[tuple[str, str], int] = defaultdict(int)
        self.handovers: dict[tuple[str, str], list[int]] = defaultdict(list)
        for event in events:
            process = event["replica"], event["boot"]
            self.last[process] = max(event["time_us"], self.last.get(process, 0))
        self.lost = _holes(events)
        self.overlaps: set[tuple[Any, ...]] = set()
        self.gaps: set[tuple[Any, ...]] = set()
        found = []
        for group, of_group in _by(events, lambda e: e["group"]).items():
            if group:
                found += [(group, *one) for one in self._group(of_group)]
        for *_, since, until, one, other in found:
            if _is_told(one, other):
                first, second = self._clocks(one, other)
                self.handovers[first[0], second[0]].append(since - until)
        self.overlaps = {(*one[:7], self._class(one)) for one in found}

    def _group(self, events: list[Event]) -> list[tuple[Any, ...]]:
        snapshots: dict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
        end_us = max(event["time_us"] for event in events)
        order = {id(event): number for number, event in enumerate(events)}
        touched: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for member, of_member in _by(events, lambda e: e["member"]).items():
            if not member:
                continue
            heard = self._heard(of_member)
            self._note_silences([event for event, _ in heard])
            for event, owned in heard:
                touched[member] |= owned
                for partition in touched[member]:
                    snapshots[partition].append((order[id(event)], event, partition in owned))
        found = []
        for (topic, partition), seen in snapshots.items():
            seen.sort(key=lambda one: one[0])
            found += self._partition(events[0]["group"], topic, partition, seen, end_us)
        return found

    def _heard(self, events: list[Event]) -> list[tuple[Event, set[tuple[str, int]]]]:
        """The snapshots of one member that count."""
        heard = []
        server = taken = protocol = None
        best: tuple[int, int] = (-1, 0)
        told = True
        for event in events:
            process, call = (event["replica"], event["boot"]), event["kind"] in CALLS
            if server is None:
                if event["kind"] in ENDS or (event["owned"] is None and not call):
                    continue
                server, taken, best = process, event["time_us"], (-1, event["time_us"])
                protocol, told = event["protocol"], True
            elif process != server:
                if not call:
                    continue
                lower = -1 < event["generation"] < best[0]
                if lower and event["protocol"] == protocol == "translated":
                    late = event["time_us"] - best[1]
                    pair = process[0], server[0]
                    self.proofs[pair] = max(self.proofs[pair], late)
                    continue
                older = lower or event["generation"] == best[0]
                if (
                    older
                    and event["kind"] != "adopted"
                    and event["time_us"] - taken <= max(self.skew_us, 1_000_000)
                ):
                    continue
                server, taken = process, event["time_us"]
            if call:
                told = event["kind"] != "adopted" or event["protocol"] == "translated"
            event["told"] = told
            if call and (event["generation"] > best[0] or event["protocol"] != protocol):
                best, protocol = (event["generation"], event["time_us"]), event["protocol"]
            if event["kind"] in ENDS:
                heard.append((event, set()))
                server = None
            elif event["owned"] is not None:
                listed = event["owned"]
                heard.append((event, {(one["topic"], p) for one in listed for p in one["partitions"]}))
            else:
                heard.append((event, heard[-1][1] if heard else set()))
        return heard

    def _note_silences(self, events: list[Event]) -> None:
        """Note in a member's events who had ended when another one took over, if there was no snapshot since."""
        server = silent = None
        for event in events:
            process = event["replica"], event["boot"]
            if server not in (None, process) and silent is None and self.last[server] < event["time_us"]:
                silent = server, self.last[server]
            event["silent_before"] = silent
            server = None if event["kind"] in ENDS else process
            silent = event["silent_after"] = silent if event["owned"] is None else None

    def _partition(
        self, group: str, topic: str, partition: int, seen: list[tuple[Any, ...]], end_us: int
    ) -> list[tuple[Any, ...]]:
        """Holds of one partition: pairs that overlap, and the times that no hold covers."""
        holds: list[dict[str, Any]] = []
        current: dict[str, dict[str, Any]] = {}
        quiet: list[tuple[Any, ...]] = []
        for number, event, has in seen:
            member, process = event["member"], (event["replica"], event["boot"])
            hold = current.get(member)
            served = number, process, event["time_us"], event["told"], event
            if hold is not None:
                hold["served"].append(served)
            if hold is not None and event["owned"] is None and event["kind"] not in ENDS:
                continue
            if not has and hold is not None:
                hold.update(until=event["time_us"], order=number, ended_by=process[0])
                del current[member]
            elif has and hold is None and event["owned"] is not None:
                for other in list(current.values()):
                    last = self._tells(other, number)[1]
                    if last < event["time_us"]:
                        other.update(until=max(last, other["since"]), order=number - 0.5, cut=True)
                        del current[other["member"]]
                        sides = other["member"], member, event["time_us"], event["time_us"]
                        quiet.append((topic, partition, *sides, other, {"instance": event["instance"]}))
                hold = {
                    "member": member,
                    "since": event["time_us"],
                    "from": number,
                    "served": [served],
                }
                hold |= {"until": end_us, "order": 10**12, "instance": event["instance"]}
                current[member] = hold
                holds.append(hold)
        pairs = [
            (
                topic,
                partition,
                one["member"],
                other["member"],
                other["since"],
                self._until(one, other),
                one,
                other,
            )
            for one, other in itertools.permutations(holds, 2)
            if one["from"] < other["from"] < one["order"] and one["member"] != other["member"]
        ]
        self._note_gaps(group, topic, partition, holds)
        return pairs + quiet

    def _until(self, one: dict[str, Any], other: dict[str, Any]) -> int:
        """When two holds cease to overlap, as far as the processes of both wrote anything."""
        ended = min(one["order"], other["order"])
        known = (self._tells(hold, ended)[1] for hold in (one, other))
        return max(min(one["until"], other["until"], *known), other["since"])

    def _tells(self, hold: dict[str, Any], ended: float) -> tuple[tuple[str, str], int]:
        """Who tells that a member has a partition until a place in the order, and when that one wrote last."""
        number, process, *_, event = [at for at in hold["served"] if at[0] <= ended][-1]
        silent = event["silent_before" if number == ended else "silent_after"]
        return silent or (process, self.last[process])

    def _note_gaps(self, group: str, topic: str, partition: int, holds: list[dict[str, Any]]) -> None:
        for hold in holds:
            covered = [other for other in holds if other["from"] < hold["order"] < other["order"]]
            later = [other for other in holds if other["from"] > hold["order"]]
            if covered or hold["order"] == 10**12 or hold.get("cut"):
                continue
            until = None
            if later:
                taken = min(later, key=lambda other: other["from"])
                until = taken["since"]
                self.handovers[hold["ended_by"], taken["served"][0][1][0]].append(until - hold["until"])
            self.gaps.add((group, topic, partition, hold["until"], until))

    def _class(self, found: tuple[Any, ...]) -> str:
        *_, since, until, one, other = found
        if one["instance"] is not None and one["instance"] == other["instance"]:
            return "static_replaced"
        if not _is_told(one, other):
            return "unproven"
        first, second = self._clocks(one, other)
        if first != second and until - since <= self.skew_us:
            return "within_skew"
        if until - since <= max(
            self._accounted_for(*pair) for pair in itertools.permutations((first[0], second[0]))
        ):
            return "clock"
        ended = min(one["order"], other["order"])
        last, _, heard, *_ = max(at for at in one["served"] if at[0] < other["from"])
        for process in _servers(one, last, ended) | _servers(other, other["from"], ended):
            if any(begin <= until and end >= heard for begin, end in self.lost[process]):
                return "events_lost"
        return "violation"

    def _clocks(self, one: dict[str, Any], other: dict[str, Any]) -> tuple[tuple[str, str], tuple[str, str]]:
        """Who served the first when the overlap ended, and who gave the second the partition."""
        ended = min(one["order"], other["order"])
        return self._tells(one, ended)[0], other["served"][0][1]

    def _accounted_for(self, ahead: str, behind: str) -> int:
        apart = self.proofs[ahead, behind]
        found = (
            apart + self.skew_us if apart > self.skew_us else -1
        )  # nothing, not even an overlap of no length
        back = self.handovers[behind, ahead]
        if ahead != behind and len(back) >= 20:
            shortest = sorted(back)[(len(back) + 49) // 50 - 1]  # the last one of the shortest fiftieth
            found = max(found, shortest if shortest > self.skew_us else -1)
        return found


def _is_told(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the journal would tell that the first hold had ended before."""
    if "from" not in other:  # its process had written nothing any more
        return False
    ended = min(one["order"], other["order"])
    return [told for number, _, _, told, _ in one["served"] if number <= ended][-1]


def _servers(hold: dict[str, Any], begin: int, ended: float) -> set[tuple[str, str]]:
    """Who served the hold's member between two places in the order."""
    return {process for number, process, *_ in hold["served"] if begin <= number <= ended}


def _by(events: list[Event], key: Any) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[key(event)].append(event)
    return found


def _holes(events: list[Event]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    holes: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for process, of_process in _by(events, lambda e: (e["replica"], e["boot"])).items():
        of_process.sort(key=lambda e: e["seq"])
        if of_process[0]["seq"] > 1:
            holes[process].append((0, of_process[0]["time_us"]))
        for before, after in itertools.pairwise(of_process):
            if after["seq"] > before["seq"] + 1:
                holes[process].append((before["time_us"], after["time_us"]))
    return holes
