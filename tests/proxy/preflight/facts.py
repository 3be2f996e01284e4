"""Facts of a cluster where nothing is wrong, to change one thing of."""

from typing import Any

import msgspec

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribedGroupMember
from proxy.config.schema import Config, Listener, Upstream
from proxy.groups.snapshot import EventView, GroupView, MemberView, Progress, Snapshot
from proxy.preflight.facts import Apis, Broker, Facts, Group, Kind, Member, Unknown, Version
from translation.policy.policy import Mode, Policy

NOTHING = ConsumerProtocolAssignment()
UNKNOWN = Unknown("nobody answers", "mend it")

SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.assignors": "uniform,range",
    "group.consumer.max.size": "2147483647",
    "group.max.size": "2147483647",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.max.session.timeout.ms": "60000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.max.heartbeat.interval.ms": "15000",
    "group.consumer.assignment.interval.ms": "1000",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "max.connections.per.ip": "2147483647",
}
"""Kafka's own."""


def broker(node_id: int = 1, **settings: str) -> Broker:
    apis = Apis(versions={ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1)}, features={"group.version": 1})
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    return Broker(node_id=node_id, host=f"kafka-{node_id}", port=9092, apis=apis, settings=SETTINGS | changed)


def subscription(*topics: str, rack: str | None = None) -> bytes:
    return encode_subscription(ConsumerProtocolSubscription(topics=topics or ("t",), rack_id=rack), 3)


def classic(
    group_id: str = "g",
    *,
    assignor: str = "range",
    protocol_type: str = "consumer",
    state: str = "Stable",
    members: int = 1,
    metadata: bytes | None = None,
    instance: str | None = None,
    assignment: ConsumerProtocolAssignment = NOTHING,
    **more: Any,
) -> Group:
    ids = [f"{group_id}-m{number}" for number in range(members)]
    described = DescribedGroup(
        group_id=group_id,
        group_state=state,
        protocol_type=protocol_type,
        protocol_data=assignor,
        members=tuple(
            DescribedGroupMember(
                member_id=one,
                client_id="c",
                client_host="/10.0.0.1",
                member_metadata=subscription() if metadata is None else metadata,
                member_assignment=encode_assignment(assignment, 1),
            )
            for one in ids
        ),
    )
    listed = tuple(Member(member_id=one, instance_id=instance, client_host="/10.0.0.1") for one in ids)
    return Group(group_id=group_id, kind=Kind.CLASSIC, classic=described, members=listed, **more)


def config(**sections: Any) -> Config:
    known: dict[str, Any] = {
        "upstream": Upstream(bootstrap=("kafka-1:9092",)),
        "listeners": (Listener(advertised_host="proxy", nodes={"0-9": 9100}),),
    }
    return Config(**{**known, **sections})


def member(member_id: str, **more: Any) -> MemberView:
    known: dict[str, Any] = {
        "id": member_id,
        "instance": None,
        "client_id": "c",
        "client_host": "10.0.0.1",
        "software": "",
        "protocol": "classic",
        "generation": 1,
        "epoch": -1,
        "state": "Stable",
        "state_since": 0,
        "updated_at": 0,
        "partitions": None,
        "rebalance_timeout_ms": 300_000,
        "stuck_s": 0,
        "session_timeout_ms": 45_000,
    }
    return MemberView(**{**known, **more})


def joined(member_id: str, instance: str, at_s: float) -> EventView:
    return EventView(
        time_us=int(at_s * 1_000_000),
        kind="joined",
        member=member_id,
        client_id="c",
        protocol="classic",
        generation=1,
        epoch=-1,
        state="Stable",
        previous_state="",
        partitions=(),
        owned=None,
        reason="",
        instance=instance,
    )


def seen(group_id: str = "g", *members: MemberView, **more: Any) -> GroupView:
    known: dict[str, Any] = {
        "id": group_id,
        "mode": "observe",
        "rule": "default",
        "assignor": None,
        "state": "Stable",
        "protocol": "classic",
        "members": members or (member(f"{group_id}-m0"),),
        "progress": Progress(done=0, total=1, by="proxy", translated=0, classic=1, consumer=0, elsewhere=0),
        "broker": None,
        "last_rebalance": None,
        "rebalances": 0,
        "why_not": None,
        "stuck": None,
        "updated_at": 0,
        "events": (),
    }
    return GroupView(**{**known, **more})


def snapshot(*groups: GroupView, **more: Any) -> Snapshot:
    known: dict[str, Any] = {
        "time": 0,
        "replicas": ("host",),
        "version": "1",
        "ready": True,
        "not_ready_reason": None,
        "policy_version": 1,
        "policy_is_current": True,
        "groups": groups,
    }
    return Snapshot(**{**known, **more})


def facts(**changed: Any) -> Facts:
    """Two stock brokers, one group with one member, which comes through a proxy; everything was asked."""
    known = Facts(
        brokers=(broker(1), broker(2)),
        groups=(classic(),),
        acls=(),
        policy=Policy(default=Mode.TRANSLATE),
        config=config(),
        taken_ports={},
        proxy=snapshot(seen()),
        version=Version(4, 4, 0),
    )
    return msgspec.structs.replace(known, **changed)
