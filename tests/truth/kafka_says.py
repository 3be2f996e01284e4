"""The truth: groups, members and lag as the tools of Kafka's distribution give them. No codec of ours is in between.

Clients have ids that say how they come, as `via1-classic-7` (:class:`ClientId`), and the tools show client ids.
"""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tools.kafka import extra_jars, jars

SOURCE = Path(__file__).with_name("KafkaTools.java")
PAST = "past"
HELPER = "epochgate-helper"
"""The client id of the member that keeps a group convertible while it has classic members."""

_TOOLS = "org.apache.kafka.tools."
_GROUPS = f"{_TOOLS}GroupsCommand"
_CONSUMER = f"{_TOOLS}consumer.group.ConsumerGroupCommand"
_SHARE = f"{_TOOLS}consumer.group.ShareGroupCommand"
_STREAMS = f"{_TOOLS}streams.StreamsGroupCommand"
_OTHER_TOOLS = {"share": _SHARE, "streams": _STREAMS}
"""By type of the group."""


class ClientId(NamedTuple):
    """How a client comes, its kind, and its number."""

    entry: str
    """`past` the proxies, or `via` and the number of a replica."""
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.entry}-{self.kind}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what an id says; one that is none of these, as a proxy's helper has, is a kind of its own."""
        try:
            entry, kind, number = text.split("-")
            return cls(entry, kind, int(number))
        except ValueError:
            return cls("?", text, 0)

    @property
    def is_past(self) -> bool:
        """Whether the proxies don't serve it."""
        return self.entry == PAST


class Member(NamedTuple):
    """A member of a group; `protocol` is the member's own (classic, consumer, share or streams)."""

    client: ClientId
    protocol: str


class Group(NamedTuple):
    """A group; `type` and `protocol` are in lower case, and `protocol` is `none` for a group that only has commits."""

    type: str
    protocol: str
    state: str
    members: tuple[Member, ...]
    lag: int | None
    """Of the partitions with a committed offset; None if there is none."""


Truth = dict[str, Group]


class KafkaTools:
    """A JVM that runs the tools, so that each call costs less than a second."""

    def __init__(self, bootstrap: str, version: str, log: Path) -> None:
        self._bootstrap = bootstrap
        libs = extra_jars.ensure(extra_jars.Part.TOOLS, version)
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                [
                    jars.java_home_program("java"), "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                    "-cp", f"{libs}/*", str(SOURCE),
                ],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process as process:  # closes its pipes too
            process.kill()

    def truth(self) -> Truth:
        """Return all groups as they are now."""
        kinds = dict(_kinds(self._run(_GROUPS, "--list")))
        everything = ("--describe", "--all-groups")
        states = dict(_states(self._run(_CONSUMER, *everything, "--state")))
        members = dict(_members(self._run(_CONSUMER, *everything, "--members", "--verbose")))
        lag = _lag(self._run(_CONSUMER, *everything))
        for group_type, tool in _OTHER_TOOLS.items():
            if any(kind[0] == group_type for kind in kinds.values()):
                states |= _states(self._run(tool, *everything, "--state"))
                members |= _members(self._run(tool, *everything, "--members"))
        for group_id, (group_type, protocol) in kinds.items():
            if group_type == "classic" and protocol not in ("consumer", "none"):
                state, *clients = self._call("classic", self._bootstrap, group_id).split()
                states[group_id] = state
                members[group_id] = [Member(ClientId.parse(one), "classic") for one in clients]
        return {
            group_id: Group(
                group_type,
                protocol,
                states.get(group_id, "?"),
                tuple(
                    one._replace(protocol=one.protocol or group_type)
                    for one in sorted(_without_helper(members.get(group_id, ())))
                ),
                lag.get(group_id),
            )
            for group_id, (group_type, protocol) in kinds.items()
        }

    def delete(self, group_id: str, group_type: str) -> str:
        """Delete a group without members, and return what the tool says."""
        return self._run(_OTHER_TOOLS.get(group_type, _CONSUMER), "--delete", "--group", group_id)

    def _run(self, tool: str, *arguments: str) -> str:
        return self._call(tool, "--bootstrap-server", self._bootstrap, *arguments)

    def _call(self, *command: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(command).encode() + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.read(int(self._process.stdout.readline())).decode()


def _without_helper(members: Sequence[Member]) -> list[Member]:
    """A proxy's helper stays in a group that has classic members, as those that come past the proxies. It is none of
    the group's clients."""
    has_classic = any(one.protocol == "classic" for one in members)
    return [one for one in members if not (has_classic and one.client.kind == HELPER)]


def _tables(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The header and the fields of each line of a tool's tables; their fields have no spaces."""
    header: list[str] = []
    for line in text.splitlines():
        fields = line.split()
        if fields[:1] == ["GROUP"]:
            header = fields
        elif header and fields and not line.startswith(("Error:", "Warning:", "Consumer group ")):
            yield header, fields


def _kinds(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for _, (group_id, group_type, *protocol) in _tables(text):
        yield group_id, (group_type.lower(), protocol[0] if protocol else "none")


def _states(text: str) -> Iterator[tuple[str, str]]:
    for _, fields in _tables(text):
        yield fields[0], fields[-2]  # before the last column, #MEMBERS


def _members(text: str) -> Iterator[tuple[str, list[Member]]]:
    """Groups with their members. A classic one has no epoch, or is marked as not upgraded."""
    found: dict[str, list[Member]] = {}
    for header, fields in _tables(text):
        line = dict(zip(header, fields, strict=False))
        protocol = ""
        if "UPGRADED" in header:
            protocol = "consumer" if fields[-1] == "true" else "classic"
        member = Member(ClientId.parse(line["CLIENT-ID"]), protocol)
        found.setdefault(fields[0], []).append(member)
    yield from found.items()


def _lag(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for header, fields in _tables(text):
        line = dict(zip(header, fields, strict=False))
        if line["LAG"] != "-":
            found[line["GROUP"]] = found.get(line["GROUP"], 0) + int(line["LAG"])
    return found
