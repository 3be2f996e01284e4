"""Who calls: from nobody in particular to the members' own principal, by what StandardAuthorizer lets them do."""

from dataclasses import dataclass

from confluent_kafka.admin import AclOperation, AdminClient, ResourcePatternType, ResourceType
from support.secured import allow

OWNER = "alice"
"""The principal of the members that are attacked."""
STRANGER = "bob"
"""Everybody else who authenticates; what he may do depends on the group and the topic."""

READ, WRITE, DELETE, DESCRIBE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
)


@dataclass(frozen=True)
class Caller:
    """One column of the matrix. Groups, topics and transactional ids of its cells begin with `key`."""

    key: str
    title: str
    user: str | None
    """Whom it authenticates as; `Place.connect` says how."""
    group: AclOperation | None = None
    """What it may do with the group, if it is not the owner."""
    topic: AclOperation | None = None
    """What it may do with the topics that the members read."""


CALLERS = (
    Caller("unauthenticated", "not authenticated", None),
    Caller("without", "authenticated, no ACL", STRANGER),
    Caller("describes", "DESCRIBE on the group", STRANGER, DESCRIBE),
    Caller("reads", "READ on the group", STRANGER, READ),
    Caller("sees", "READ on the group, DESCRIBE on the topic", STRANGER, READ, DESCRIBE),
    Caller("owner", "the members' own principal, with DELETE", OWNER),
)


def set_up_acls(admin: AdminClient, kinds_of_groups: tuple[str, ...]) -> None:
    """Let the owner read everything, and the stranger do what each of his columns says.

    Group ids are `<kind>-<key of the caller>-...`.
    """
    prefixed = ResourcePatternType.PREFIXED
    for kind in kinds_of_groups:
        allow(admin, OWNER, ResourceType.GROUP, f"{kind}-", READ, DELETE, pattern=prefixed)
    for caller in CALLERS:
        allow(admin, OWNER, ResourceType.TOPIC, f"{caller.key}-", READ, pattern=prefixed)
        user = OWNER if caller.user == OWNER else STRANGER
        if caller.user == OWNER or caller.group is not None:
            allow(admin, user, ResourceType.TRANSACTIONAL_ID, f"{caller.key}-", WRITE, pattern=prefixed)
        if caller.group is not None:
            for kind in kinds_of_groups:
                allow(
                    admin, user, ResourceType.GROUP, f"{kind}-{caller.key}-", caller.group, pattern=prefixed
                )
        if caller.topic is not None:
            allow(admin, user, ResourceType.TOPIC, f"{caller.key}-", caller.topic, pattern=prefixed)
