"""Preflight: what ACLs mean once a proxy stands between: brokers see its address, and heartbeats name topics."""

from collections.abc import Iterable

from proxy.admin.preflight_report import Finding, Source
from proxy.preflight.checks.check import Check, Found, quoted
from proxy.preflight.checks.groups import subscribed
from proxy.preflight.facts import Acl, Facts, Group, Unknown

_ANY_HOST = "*"


def _acls(facts: Facts) -> tuple[Acl, ...]:
    return () if isinstance(facts.acls, Unknown) else facts.acls


def _touched(facts: Facts, acls: Iterable[Acl]) -> tuple[str, ...]:
    """The groups that are to move and that one of these is about: by id, or by a topic that they subscribe to."""
    rules = list(acls)
    return tuple(sorted(one.group_id for one in facts.to_move if any(_is_about(rule, one) for rule in rules)))


def _is_about(acl: Acl, group: Group) -> bool:
    if acl.resource == "GROUP":
        return acl.covers(group.group_id)
    return acl.resource == "TOPIC" and any(acl.covers(topic) for topic in subscribed(group))


def _hosts(facts: Facts) -> Found:
    bound = [acl for acl in _acls(facts) if acl.host != _ANY_HOST]
    for permission, effect in (
        ("ALLOW", "allow nothing to clients of the proxy, unless they name the proxy's own address"),
        ("DENY", "deny nothing to clients of the proxy, unless they name the proxy's own address"),
    ):
        of_kind = [acl for acl in bound if acl.permission == permission]
        if of_kind:
            yield Finding(
                check="acl_hosts",
                what=f"ACLs for a host {effect}, which is what brokers see: {quoted(map(str, of_kind), 3)}",
                groups=_touched(facts, of_kind),
                do="write them for principals and any host (`*`), or for the proxy's address; limit addresses at the "
                "proxy's network instead",
            )


def _denied_topics(facts: Facts) -> Found:
    denied = [
        acl
        for acl in _acls(facts)
        if acl.permission == "DENY" and acl.resource == "TOPIC" and acl.operation in ("DESCRIBE", "ALL")
    ]
    groups = _touched(facts, denied)
    if groups:
        concerned = [acl for acl in denied if any(_is_about(acl, one) for one in facts.to_move)]
        yield Finding(
            check="acl_topics",
            what="a member of the new protocol needs DESCRIBE on every topic that it subscribes to, and these groups "
            f"subscribe to one that somebody may not describe: {quoted(map(str, concerned), 3)}. Such a client's "
            "member is made without the topic, and its group's description is empty to it",
            groups=groups,
            do="allow DESCRIBE to these principals, or take the topic out of their clients' subscriptions",
        )


def _log_writers(facts: Facts) -> Found:
    config = facts.config
    if config is None or config.fleet is None:
        return
    fleet = config.fleet
    account = fleet.kafka.get("sasl.username")
    writers = sorted(
        {
            acl.principal
            for acl in _acls(facts)
            if acl.resource == "TOPIC"
            and acl.permission == "ALLOW"
            and acl.operation in ("WRITE", "ALL")
            and acl.covers(fleet.topic)
            and acl.principal != f"User:{account}"
        }
    )
    if account is not None and writers:
        yield Finding(
            check="acl_member_log",
            what=f"{quoted(writers)} may write to the member log ({fleet.topic}): whoever can, can put members out of "
            "their groups",
            do=f"let only the account of `fleet.kafka` (User:{account}) write to {fleet.topic}",
        )


_SOURCES = frozenset({Source.ACLS})
CHECKS = (
    Check("acl_hosts", "No ACL is bound to the address of a client.", _SOURCES | {Source.GROUPS}, _hosts),
    Check(
        "acl_topics",
        "No ACL hides a topic from clients of a group that subscribes to it.",
        _SOURCES | {Source.GROUPS},
        _denied_topics,
    ),
    Check(
        "acl_member_log",
        "Only the fleet's account may write to the member log.",
        _SOURCES | {Source.CONFIGURATION},
        _log_writers,
    ),
)
