"""Preflight: whether the groups can move: what their clients say of themselves, as DescribeGroups shows it.

The judgement is the translation's own (:func:`translation.conversion.convertibility.obstacle_of`).
"""

from protocol_codecs import CodecError
from protocol_codecs.classic_clients import LOST_AT_ONCE, RACKS_IGNORED, Offer, is_rack_aware
from protocol_codecs.messages.consumer_protocol import decode_subscription, has_user_data
from protocol_codecs.messages.describe_groups import DescribedGroup
from proxy.admin.preflight_report import Finding, Source
from proxy.preflight.checks.check import Check, Found, count
from proxy.preflight.facts import Facts, Group, Kind, Unknown, number
from translation.conversion.convertibility import Obstacle, obstacle_of
from translation.policy.group_type import GroupType
from translation.policy.policy import Mode
from translation.reasons import options

_FROM_METADATA = ("translatable", "moved_together", "racks", "assignors")
_LEAVE_CLASSIC = "leave it classic (`mode: observe`), or mend its clients"


def obstacle(facts: Facts, group: Group) -> tuple[Obstacle, str]:
    """What stands in the way of translating a group, under the policy."""
    if group.classic is None:
        return Obstacle.NONE, ""
    is_set = facts.rule(group.group_id).assignor is not None
    return obstacle_of(group.classic, facts.policy.assignors_allowed, assignor_is_set=is_set)


def _grouped(facts: Facts, *wanted: Obstacle) -> dict[str, list[str]]:
    """The ids of the groups with such an obstacle, by what it is."""
    found: dict[str, list[str]] = {}
    for group in facts.to_move:
        which, why = obstacle(facts, group)
        if which in wanted:
            found.setdefault(why, []).append(group.group_id)
    return found


def _translatable(facts: Facts) -> Found:
    for why, groups in sorted(_grouped(facts, Obstacle.PERMANENT).items()):
        yield Finding(
            check="translatable",
            what=f"these groups would pass through unchanged: {why}",
            groups=tuple(sorted(groups)),
            do=options(why) or _LEAVE_CLASSIC,
        )
    unclear = _grouped(facts, Obstacle.TRANSIENT, Obstacle.REVOCATION_PENDING)
    rebalancing = sorted(group for groups in unclear.values() for group in groups)
    if rebalancing:
        yield Finding(
            check="translatable",
            unknown=True,
            what="these groups are in a rebalance, in which brokers do not tell what their members sent",
            groups=tuple(rebalancing),
            do="run the preflight again; a group that is always in one has a problem of its own",
            checks=_FROM_METADATA,
        )


def _together(facts: Facts) -> Found:
    found = _grouped(facts, Obstacle.MEMBERS)
    groups = sorted(group for each in found.values() for group in each)
    if groups:
        yield Finding(
            check="moved_together",
            what=f"{'; '.join(sorted(found)[:3])}: {LOST_AT_ONCE}",
            groups=tuple(groups),
            do="have their applications neither commit nor raise in onPartitionsLost; move them when a pause does no "
            "harm, each by a rule of its own; or give their clients another assignor",
        )


def _types(facts: Facts) -> Found:
    groups = () if isinstance(facts.groups, Unknown) else facts.groups
    moved = [one.group_id for one in groups if one.kind is Kind.OTHER and _is_translated(facts, one)]
    if moved:
        yield Finding(
            check="group_type",
            what="these are share groups or streams groups, and the policy translates their ids: a classic consumer "
            "that comes by mistake is not kept out",
            groups=tuple(sorted(moved)),
            do="give them a rule before, with `mode: observe` and `type: share` or `type: streams`",
        )
    denied = [
        one.group_id
        for one in groups
        if one.kind is not Kind.OTHER
        and one.size
        and facts.rule(one.group_id).type not in (None, GroupType.CONSUMER)
    ]
    if denied:
        yield Finding(
            check="group_type",
            what="these groups have consumers, and the policy says another type: their members are refused when they "
            "join again",
            groups=tuple(sorted(denied)),
            do="take the `type` out of their rule, or say `type: consumer`",
        )


def _is_translated(facts: Facts, group: Group) -> bool:
    return facts.rule(group.group_id).mode is Mode.TRANSLATE


def _racks(facts: Facts) -> Found:
    aware = {group.group_id for group in facts.to_move if group.classic and _is_rack_aware(group.classic)}
    if facts.proxy is not None and not isinstance(facts.proxy, Unknown):
        moving = {group.group_id for group in facts.to_move}
        aware |= {
            one.id for one in facts.proxy.groups if one.client is not None and one.client.rack_aware
        } & moving
    if aware:
        yield Finding(
            check="racks",
            what=RACKS_IGNORED,
            groups=tuple(sorted(aware)),
            do="see what reading from another rack costs before these groups move, or leave them classic",
        )


def _is_rack_aware(group: DescribedGroup) -> bool:
    for member in group.members:
        try:
            rack = decode_subscription(member.member_metadata)[1].rack_id
            offer = Offer(group.protocol_data, has_user_data(member.member_metadata))
        except CodecError:
            continue  # the check `translatable` says so
        if is_rack_aware((offer,), rack):
            return True
    return False


def subscribed(group: Group) -> frozenset[str]:
    """The topics that the members of a classic group subscribe to, as far as that can be read."""
    topics: set[str] = set()
    for member in () if group.classic is None else group.classic.members:
        try:
            topics.update(decode_subscription(member.member_metadata)[1].topics)
        except CodecError:
            continue
    return frozenset(topics)


def _full(facts: Facts) -> Found:
    for node, settings in sorted(facts.settings().items()):
        limit = number(settings, "group.max.size")
        if limit is None:
            continue
        larger = [one for one in facts.to_move if one.kind is Kind.CONSUMER and one.size > limit]
        if larger:
            most = max(one.size for one in larger)
            yield Finding(
                check="way_back",
                what=f"group.max.size is {limit} at broker {node}, and these groups have more members (up to "
                f"{count(most, 'member')}): they can't become classic again",
                groups=tuple(sorted(one.group_id for one in larger)),
                do=f"raise group.max.size to at least {most} on every broker, and restart them",
            )


_GROUPS = frozenset({Source.GROUPS})
CHECKS = (
    Check("translatable", "What the clients of each group send can be translated.", _GROUPS, _translatable),
    Check("moved_together", "Live groups can be converted in place.", _GROUPS, _together),
    Check("group_type", "No rule of the policy is about a group of another type.", _GROUPS, _types),
    Check(
        "racks",
        "No group has clients that name their racks to an assignor, which a broker's assignors ignore.",
        _GROUPS,
        _racks,
    ),
    Check(
        "way_back",
        "No group that has moved is larger than a classic one may be (`group.max.size`).",
        frozenset({Source.BROKERS, Source.SETTINGS, Source.GROUPS}),
        _full,
    ),
)
