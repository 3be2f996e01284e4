"""Knows which groups there are, and how many members each has."""

from collections.abc import Iterable

import msgspec
import trio

from proxy.groups.lag.asking_process import AskingProcess
from proxy.groups.lag.messages import Answer, AskGroups, AskMembers, Groups, Members
from proxy.groups.lag.readings import Unknown

GROUPS_AT_ONCE = 100
"""Groups of one question about members."""


class KnownMembers(msgspec.Struct, frozen=True):
    """How many members a group had at some time (seconds of :func:`trio.current_time`)."""

    at: float
    members: int


class Census:
    """Asks for groups and members over an asking process that others use too."""

    def __init__(self, asking: AskingProcess) -> None:
        self._asking = asking
        asking.on_answer.append(self._take)
        asking.on_lost.append(self._lose)
        self.groups: frozenset[str] = frozenset()
        """Those of the last list; and those of the one before, if some broker did not answer."""
        self.missing: Unknown | None = None
        """Why the last list is not complete; None if it is."""
        self.members: dict[str, KnownMembers] = {}
        self._due: set[str] = set()
        self._list_is_due = False
        self._changed = trio.Event()

    async def list_groups(self, patience_s: float) -> None:
        """List the groups anew. After ``patience_s`` the list before stays."""
        if not self._list_is_due:
            self._list_is_due = True
            self._asking.ask(AskGroups())
        with trio.move_on_after(patience_s):
            while self._list_is_due:
                await self._changed.wait()

    async def count_members(self, groups: Iterable[str], patience_s: float) -> None:
        """Count the members of these groups anew; forget those of others. After ``patience_s`` it waits no longer."""
        wanted = dict.fromkeys(groups)
        self.members = {group: known for group, known in self.members.items() if group in wanted}
        asked = [group for group in wanted if group and group not in self._due]
        self._due.update(asked)
        for at in range(0, len(asked), GROUPS_AT_ONCE):
            self._asking.ask(AskMembers(tuple(asked[at : at + GROUPS_AT_ONCE])))
        with trio.move_on_after(patience_s):
            while not self._due.isdisjoint(asked):
                await self._changed.wait()

    def _take(self, answer: Answer) -> None:
        match answer:
            case Groups(groups, missing):
                self._list_is_due = False
                self.missing = missing
                self.groups = frozenset(groups) | (self.groups if missing is not None else frozenset())
            case Members(group, members):
                self._due.discard(group)
                if not isinstance(members, Unknown):
                    self.members[group] = KnownMembers(trio.current_time(), members)
            case _:
                return
        self._has_changed()

    def _lose(self) -> None:
        self._due.clear()
        self._list_is_due = False
        self._has_changed()

    def _has_changed(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
