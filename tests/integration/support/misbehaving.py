"""Classic members that behave well until they are translated, and then do what a broken client does."""

import contextlib
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.types import GroupId

from support import raw
from support.raw_member import RawMember
from translation.members.member_ids import is_issued_form

_HEARTBEAT_EVERY_S = 0.1
_CLIENT_ID = "broken"
_OVER = {22, 25}
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID: it joins as a new member."""
_REBALANCE = 27
_NEW_PROTOCOL = 1


class Misbehaving:
    """A member in a thread of its own. `harm` is called at each turn once it was translated.

    `harmed_at` is when it began (:func:`time.monotonic`), 0 before.
    """

    def __init__(
        self, bootstrap: str, group: str, topic: str, partitions: int, harm: "Callable[[Misbehaving], None]"
    ) -> None:
        self.bootstrap, self.group = bootstrap, group
        self.harmed_at = 0.0
        self.is_calm = False
        self.is_syncing = True
        self.pauses_s = 0.0
        self._topic, self._partitions, self._harm = topic, partitions, harm
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"misbehaving in {group}")
        self.member: RawMember | None = None

    @property
    def is_translated(self) -> bool:
        """Whether the proxy gave out its member id, with a slot, or has converted it in place, as the broker says."""
        if self.member is None or is_issued_form(self.member.member_id):
            return self.member is not None
        with raw.to_coordinator(self.bootstrap, self.group, client_id=_CLIENT_ID) as connection:
            request = ConsumerGroupDescribeRequest(
                group_ids=(GroupId(self.group),), include_authorized_operations=False
            )
            members = connection.call(request).groups[0].members
        return any(
            one.member_id == self.member.member_id and one.member_type == _NEW_PROTOCOL for one in members
        )

    def calm_down(self) -> None:
        """Do no more harm from now on."""
        self.is_calm = True

    def rejoin(self) -> None:
        """JoinGroup under its id, giving up everything."""
        assert self.member is not None
        self.member.join()
        self.wait(self.pauses_s if self.is_translated else 0)
        if self.is_syncing or not self.is_translated:
            self.member.sync(self._partitions)

    def reconnect(self) -> None:
        """The same member on another connection."""
        assert self.member is not None
        self.member._connection.close()
        self.member._connection = raw.to_coordinator(self.bootstrap, self.group, client_id=_CLIENT_ID)

    def begin_anew(self) -> None:
        """Another member on another connection; the old one is left alone."""
        self.hang_up()
        self.member = RawMember(self.bootstrap, self.group, self._topic, client_id=_CLIENT_ID)
        self.rejoin()

    def hang_up(self) -> None:
        """Close its connection, if it has one."""
        if self.member is not None:
            with contextlib.suppress(OSError):
                self.member._connection.close()

    def wait(self, seconds: float) -> None:
        """Wait, but not beyond its end."""
        self._stopping.wait(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.begin_anew()
                while not self._stopping.wait(_HEARTBEAT_EVERY_S):
                    self._turn()
            except (AssertionError, OSError):
                self.wait(0.5)  # an error that ends any client's membership: it begins anew

    def _turn(self) -> None:
        assert self.member is not None
        code = self.member.heartbeat()
        if code in _OVER:
            self.member.member_id = ""
            self.rejoin()
        elif code == _REBALANCE:
            self.rejoin()
        if not self.is_calm and (self.is_translated or self.harmed_at):
            self.harmed_at = self.harmed_at or time.monotonic()
            self._harm(self)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self.hang_up()


# -- what it does wrong ------------------------------------------------------------------------------------------------


def commits_with_an_old_generation(one: Misbehaving) -> None:
    """It commits what it must not, again and again."""
    assert one.member is not None
    one.member.commit(0, 0, generation=max(0, int(one.member.generation) - 3))


def joins_all_the_time(one: Misbehaving) -> None:
    """It rejoins for no reason."""
    one.rejoin()
    one.wait(0.4)


def leaves_and_comes_back(one: Misbehaving) -> None:
    """It leaves and joins as a new member, as a client that is closed and opened for each record."""
    assert one.member is not None
    one.wait(0.5)
    one.member.leave()
    one.begin_anew()


def loses_its_connection(one: Misbehaving) -> None:
    """Its connections break after a moment."""
    one.wait(0.5)
    one.reconnect()


def crashes_again_and_again(one: Misbehaving) -> None:
    """It ends without leaving, and comes back as another member."""
    one.wait(1)
    one.begin_anew()


def never_asks_for_its_assignment(one: Misbehaving) -> None:
    """It joins, and never sends SyncGroup: what it is assigned nobody works on."""
    if one.is_syncing:
        one.is_syncing = False
        one.rejoin()


def takes_long_in_each_rebalance(one: Misbehaving) -> None:
    """Six seconds between JoinGroup and SyncGroup, and then it rejoins."""
    one.pauses_s = 6.0
    one.rejoin()


def reads_nothing(one: Misbehaving) -> None:
    """It heartbeats, and never commits anything."""
