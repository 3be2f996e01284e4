"""Member ids: which this process gave out, which are native members', and what the form of one shows.

The broker describes a client that is translated exactly as it describes one that speaks the new protocol by itself.
Only the form of its member id tells one from the other:

* Ids that are given out here begin with :data:`ISSUED_PREFIX`.
* A client that was a classic member may come with the id that a classic coordinator gave it, which is the client id
  or the instance id, a hyphen and a UUID in hexadecimal (``ClassicGroup.generateMemberId``).
* A native client makes its own id (KIP-848, "Member ID"), or the broker makes one for it (ConsumerGroupHeartbeat v0):
  a UUID in base64 and nothing before it (22 characters in Java and librdkafka, 24 in franz-go). A classic client that
  joins a group with native members in it is given such an id too (``classicGroupJoinToConsumerGroup``). When it is
  moved, and comes with that id, it is given one of ours (:mod:`translation.joining.join_preflight`).
"""

import re
import uuid
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from protocol_codecs.uuids import Uuid, uuid_to_text
from translation.actions import ConnectionId

ISSUED_PREFIX = "epochgate-"
"""What the ids begin with that any process of Epochgate gives out."""

LONGEST_MEMBER_ID = 255
"""Characters of an id that is remembered as it is; of a longer one a hash is."""

_OF_CLASSIC_COORDINATOR = re.compile(r".*-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.DOTALL)


def may_be_translated(member_id: str) -> bool:
    """Whether a member of the new protocol with this id may be a classic client that is translated.

    Else it is a native one. See the module for the forms.
    """
    return member_id.startswith(ISSUED_PREFIX) or _OF_CLASSIC_COORDINATOR.fullmatch(member_id) is not None


def is_issued_form(member_id: str) -> bool:
    """Whether some process of Epochgate may have given out this id.

    A classic coordinator's id for a client whose client id begins with :data:`ISSUED_PREFIX` is none.
    """
    return member_id.startswith(ISSUED_PREFIX) and _OF_CLASSIC_COORDINATOR.fullmatch(member_id) is None


def kafka_uuid() -> str:
    """A random UUID as Kafka prints it: 22 url-safe characters, never beginning with a dash."""
    while True:
        text = uuid_to_text(Uuid(uuid.uuid4().bytes))
        if not text.startswith("-"):
            return text


class MemberIds:
    """Remembers the last ``limit`` of each. ``new_uuid`` makes an id that nobody has."""

    def __init__(self, new_uuid: Callable[[], str], limit: int) -> None:
        self._new_uuid = new_uuid
        self._limit = limit
        self._issued: dict[str, bool] = {}
        """The ids that this process gave out, and whether a client has joined under each."""
        self._joins_classic: dict[str, ConnectionId] = {}

    def issue(self) -> str:
        """Make a new member id, and remember that this process gave it out."""
        member_id = ISSUED_PREFIX + self._new_uuid()
        self.issued(member_id)
        return member_id

    def unlike_ours(self, prefix: str) -> str:
        """Make a member id that is not remembered, and has no form that :func:`may_be_translated`."""
        return prefix + self._new_uuid()

    def issued(self, member_id: str) -> None:
        """Remember that this process gave out an id."""
        self._issued[member_id] = False
        while len(self._issued) > self._limit:
            del self._issued[next(iter(self._issued))]

    def is_issued(self, member_id: str) -> bool:
        """Whether this process gave out the id, so that no classic coordinator can know it."""
        return member_id in self._issued

    def forget(self, member_id: str) -> None:
        """Another process has served the member: no membership begins here under the id any more."""
        self._issued.pop(member_id, None)

    def is_unused(self, member_id: str) -> bool:
        """Whether this process gave out the id, and no client has joined under it."""
        return not self._issued.get(member_id, True)

    def used(self, member_id: str) -> None:
        """Record that a client joins under an id that this process gave out."""
        if member_id in self._issued:
            self._issued[member_id] = True

    def joins_classic(self, member_id: str, connection_id: ConnectionId) -> None:
        """Record that a JoinGroup with this id is relayed on a connection: a classic coordinator learns of the id."""
        self._issued.pop(member_id, None)
        if member_id:
            self._joins_classic[_key(member_id)] = connection_id
            while len(self._joins_classic) > self._limit:
                del self._joins_classic[next(iter(self._joins_classic))]

    def has_joined_classic(self, member_id: str) -> None:
        """Record by a SyncGroup that the client has received the answer to its relayed JoinGroup."""
        self._joins_classic.pop(_key(member_id), None)

    def may_become_classic(self, member_id: str, connection_id: ConnectionId) -> bool:
        """Whether an earlier JoinGroup with this id, relayed on another connection, may still reach the coordinator.

        Its client waits no more for the answer. It would make a member of the new protocol with this id a classic one.
        """
        return self._joins_classic.get(_key(member_id), connection_id) != connection_id


def _key(member_id: str) -> str:
    return member_id if len(member_id) <= LONGEST_MEMBER_ID else sha256(member_id.encode()).hexdigest()


_LONGEST = 510
"""Characters of both ids together; longer ones are recognised by their form alone."""


class NativeMembers:
    """The last ``limit`` native members, by group id and member id: those whose ConsumerGroupHeartbeat the broker
    accepted on its way through here, and those that the broker described.

    What is forgotten is recognised again by the form of its id (:mod:`translation.members.member_ids`).
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._members: OrderedDict[tuple[str, str], None] = OrderedDict()

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._members

    def add(self, group_id: str, member_id: str) -> None:
        """Remember a native member of the broker."""
        if len(group_id) + len(member_id) > _LONGEST:
            return
        key = (group_id, member_id)
        self._members[key] = None
        self._members.move_to_end(key)
        if len(self._members) > self._limit:
            self._members.popitem(last=False)

    def discard(self, group_id: str, member_id: str) -> None:
        """Forget a member that has left; a classic client may come with its id."""
        self._members.pop((group_id, member_id), None)
