"""Items of docs/reference/kips drawn by seed, each with a change of the code by which a test of the item fails."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
ITEMS = ROOT / "docs" / "reference" / "kips"
SEED = 53
DRAWS = {("848", "848-later"): 24, ("932", "connect", "429"): 16}
"""How many items are drawn of which documents."""


class Mutation(msgspec.Struct, frozen=True):
    """A text of a file, which occurs once there, and what is put in its place so that the item no longer holds."""

    item: str
    file: str
    old: str
    new: str


def rows(*documents: str) -> dict[str, dict[str, Any]]:
    """The items of these documents by their ids, all documents if none is named."""
    names = documents or [path.stem for path in ITEMS.glob("*.json")]
    read = (json.loads((ITEMS / f"{name}.json").read_text(encoding="utf-8")) for name in names)
    return {row["id"]: row for document in read for row in document}


def drawn() -> Iterator[str]:
    """Ids of items that are here. All ids are shuffled, so that a changed state changes one of those drawn."""
    for documents, count in DRAWS.items():
        found = rows(*documents)
        shuffled = random.Random(SEED).sample(sorted(found), len(found))  # noqa: S311 - the same ones each time
        yield from [one for one in shuffled if found[one]["state"] == "here"][:count]


HEARTBEAT = "protocol_codecs/messages/consumer_group_heartbeat.py"

MUTATIONS = (
    Mutation(
        "848-468",
        "coordinator/consumer_groups/classic_members.py",
        "generation_id=declared.member_epoch,",
        "generation_id=member.member_epoch,",
    ),
    Mutation(
        "848-later-006",
        "coordinator/consumer_groups/heartbeat.py",
        "client_id=call.client_id, client_host=call.client_host,",
        "client_id=member.client_id, client_host=member.client_host,",
    ),
    Mutation(
        "848-495",
        "coordinator/consumer_groups/client_side/declaring.py",
        "if not assignor.reads(CLASSIC_VERSION):",
        "if assignor.maximum_version < CLASSIC_VERSION:",
    ),
    Mutation(
        "848-later-025",
        HEARTBEAT,
        'ConsumerGroupHeartbeatRequestTopicPartitions, nullable="0+", default=None',
        "ConsumerGroupHeartbeatRequestTopicPartitions",
    ),
    Mutation(
        "848-370",
        "coordinator/consumer_groups/assigning.py",
        "records.target_epoch(group.group_id, version.epoch, draft.shard.now_ms)",
        "records.target_epoch(group.group_id, group.group_epoch, draft.shard.now_ms)",
    ),
    Mutation(
        "848-466",
        "coordinator/consumer_groups/fencing.py",
        "epoch = group.group_epoch + 1",
        "epoch = group.group_epoch",
    ),
    Mutation(
        "848-032",
        "coordinator/consumer_groups/assigning.py",
        "return draft.shard.config.consumer_assignors[0]",
        "return draft.shard.config.consumer_assignors[-1]",
    ),
    Mutation(
        "848-038",
        "coordinator/consumer_groups/client_side/computing.py",
        "        member_id = group.last_computing_member\n",
        "        member_id = able[0]\n",
    ),
    Mutation(
        "848-174",
        "coordinator/handlers/consumer_group_heartbeat.py",
        '        _check_not_blank("member id", request.member_id)\n',
        "        pass\n",
    ),
    Mutation(
        "848-353",
        "coordinator/consumer_groups/subscription.py",
        "draft.add(records.group_epoch(group.group_id, epoch, new_hash))",
        "draft.add(records.group_epoch(group.group_id, group.group_epoch, new_hash))",
    ),
    Mutation(
        "848-136",
        "translation/members/member_state.py",
        "        _E.SYNC_ANSWERED: _S.STABLE,\n        # A client that owns more",
        "        _E.SYNC_ANSWERED: _S.COMPLETING_REBALANCE,\n        # A client that owns more",
    ),
    Mutation(
        "848-268",
        "coordinator/consumer_groups/client_side/installing.py",
        "draft.add(records.target_assignment(group.group_id, member_id, partitions, details))",
        "draft.add(records.target_assignment(group.group_id, member_id, before or {}, details))",
    ),
    Mutation(
        "848-later-034",
        "coordinator/consumer_groups/heartbeat.py",
        "assignment=heartbeat_assignment(updated.assigned) if news else None",
        "assignment=heartbeat_assignment(updated.assigned)",
    ),
    Mutation(
        "848-049",
        "coordinator/handlers/consumer_group_install_assignment.py",
        "        prepared, parts = checked(computation.prepared, request)\n",
        "        is_present = request.group_epoch == group.group_epoch\n"
        "        prepared, parts = checked(computation.prepared if is_present else None, request)\n",
    ),
    Mutation(
        "848-369",
        "protocol_codecs/records/coordinator_record.py",
        "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6",
        "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 106",
    ),
    Mutation(
        "848-452",
        "coordinator/consumer_groups/reconciliation.py",
        "return member.at_epoch(target.epoch).replace(",
        "return member.at_epoch(target.epoch if added or revoked else member.member_epoch).replace(",
    ),
    Mutation(
        "848-203",
        "coordinator/consumer_groups/heartbeat.py",
        "assignment=heartbeat_assignment(updated.assigned) if news else None",
        "assignment=heartbeat_assignment(dict.fromkeys(target.partitions, {})) if news else None",
    ),
    Mutation(
        "848-later-026",
        HEARTBEAT,
        "class ConsumerGroupHeartbeatResponse(\n"
        '    Message, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"',
        "class ConsumerGroupHeartbeatResponse(\n"
        '    Message, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="1+"',
    ),
    Mutation(
        "848-142",
        "coordinator/consumer_groups/classic_members.py",
        "version = subscription.version_after(draft, member, declared, bump=bump)",
        "version = subscription.version_after(draft, member, declared, bump=False)",
    ),
    Mutation(
        "848-360",
        "protocol_codecs/records/consumer_group.py",
        '    rack_id: str | None = string(nullable="0+")\n',
        "    rack_id: str = string()\n",
    ),
    Mutation(
        "848-326",
        "protocol_codecs/messages/offset_fetch.py",
        '    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)\n',
        '    member_id: str = string("9+", ignorable=True)\n',
    ),
    Mutation(
        "848-later-015",
        HEARTBEAT,
        "    group_id: str = string()\n    member_id: str = string()\n",
        "    member_id: str = string()\n    group_id: str = string()\n",
    ),
    Mutation(
        "848-057",
        "coordinator/handlers/consumer_group_heartbeat.py",
        "if request.member_epoch in {LEAVE_EPOCH, STATIC_LEAVE_EPOCH}:",
        "if request.member_epoch == STATIC_LEAVE_EPOCH:",
    ),
    Mutation(
        "848-341",
        "coordinator/broker/apis/configs.py",
        "own = context.cluster.group_settings.get(name, {})",
        "own: dict[str, str] = {}",
    ),
    Mutation(
        "connect-073",
        "coordinator/connect_groups/preparing.py",
        '            ErrorCode.UNKNOWN_MEMBER_ID, f"member {member.member_id!r} is not to compute',
        '            ErrorCode.INVALID_REQUEST, f"member {member.member_id!r} is not to compute',
    ),
    Mutation(
        "932-108",
        "protocol_codecs/records/share_group.py",
        '    """Identifies the group (type 11)."""\n\n    group_id: str = string()\n',
        '    """Identifies the group (type 11)."""\n'
        "\n"
        "    group_id: str = string()\n"
        "    member_id: str = string()\n",
    ),
    Mutation(
        "connect-024",
        "coordinator/connect_groups/heartbeat.py",
        "        heartbeat_interval_ms=shard.settings.heartbeat_interval_ms,\n",
        "        heartbeat_interval_ms=0,\n",
    ),
    Mutation(
        "932-107",
        "coordinator/share_groups/records.py",
        "        CoordinatorRecord(r.ShareGroupMetadataKey(group_id=group.group_id)),\n    ]",
        "    ]",
    ),
    Mutation(
        "429-016",
        "translation/members/generation.py",
        "return ErrorCode.NONE if counts else ErrorCode.ILLEGAL_GENERATION",
        "return ErrorCode.NONE if counts else ErrorCode.REBALANCE_IN_PROGRESS",
    ),
    Mutation(
        "932-051",
        "protocol_codecs/records/share_state.py",
        "    snapshot_epoch: int = int32()\n"
        "    leader_epoch: int = int32()\n"
        "    start_offset: int = int64()\n"
        "    delivery_complete_count: int = int32(default=-1, tag=0)\n"
        "    state_batches",
        "    leader_epoch: int = int32()\n"
        "    snapshot_epoch: int = int32()\n"
        "    start_offset: int = int64()\n"
        "    delivery_complete_count: int = int32(default=-1, tag=0)\n"
        "    state_batches",
    ),
    Mutation(
        "932-008",
        "coordinator/assignors/sharing.py",
        "self._shares = -(-len(members) // len(partitions)) if partitions else 0",
        "self._shares = 1",
    ),
    Mutation(
        "429-029",
        "translation/apis/sync_group.py",
        "member.partitions.possibly_owned |= member.partitions.synced_assignment",
        "member.partitions.possibly_owned = member.partitions.synced_assignment",
    ),
    Mutation(
        "932-100",
        "protocol_codecs/messages/share_group_heartbeat.py",
        'class ShareGroupHeartbeatRequest(Message, api_key=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1", flexible="0+")',
        'class ShareGroupHeartbeatRequest(Message, api_key=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1", flexible="2+")',
    ),
    Mutation(
        "429-102",
        "translation/apis/join_group.py",
        "member.client.protocol_name = protocols[0]",
        "member.client.protocol_name = protocols[-1]",
    ),
    Mutation(
        "932-054",
        "coordinator/share_state/state.py",
        "self.partitions[partition] = _after_update(before, value)",
        "self.partitions[partition] = before",
    ),
    Mutation(
        "connect-017",
        "coordinator/connect_groups/heartbeat.py",
        "bump = is_new or declared.assignors != member.assignors or _asks(request)",
        "bump = is_new or _asks(request)",
    ),
    Mutation(
        "932-037",
        "coordinator/broker/apis/share_fetch.py",
        "        records = led.log.read(offset, max_bytes)",
        "        records = led.log.read(offset, max_bytes)[:0]",
    ),
    Mutation(
        "connect-019",
        "protocol_codecs/connect_groups/messages.py",
        '    Message, api_key=ConnectApiKey.CONNECT_GROUP_HEARTBEAT, versions="0", flexible="0+"\n'
        "):\n"
        '    """The worker\'s epoch',
        '    Message, api_key=ConnectApiKey.CONNECT_GROUP_HEARTBEAT, versions="0", flexible="1+"\n'
        "):\n"
        '    """The worker\'s epoch',
    ),
    Mutation(
        "932-081",
        "coordinator/config.py",
        "    share_session_timeout_ms: int = 45_000",
        "    share_session_timeout_ms: int = 30_000",
    ),
    Mutation(
        "connect-005",
        "coordinator/connect_groups/classic_members.py",
        "members=_for_leader(group, protocol) if leads else (),",
        "members=(),",
    ),
)
