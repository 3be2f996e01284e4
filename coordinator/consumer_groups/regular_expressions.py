"""Subscriptions by regular expression (RE2): validated at once, resolved to topics a moment later.

Resolution is a step of its own, as in Kafka, where it runs in the background: the heartbeat with a new expression is
answered before its topics are known, and the resolution bumps the group epoch. All expressions of a group are resolved
together: when one is new, when topics were created, or when the refresh interval has passed, but at most every ten
seconds.
"""

from enum import Enum

import re2

from coordinator import records
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.group import ConsumerGroup, ResolvedRegex
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.errors import RequestRefused
from coordinator.image import MetadataImage, metadata_hash
from coordinator.modern_group import METADATA_REFRESH_INTERVAL_MS, with_regex_topics
from coordinator.shard import Shard
from coordinator.timers import RegexResolution
from protocol_codecs.error_code import ErrorCode

MIN_REFRESH_INTERVAL_MS = 10_000
"""The least time between two resolutions of a group's expressions; fixed in Kafka."""


class RegexChange(Enum):
    """How a heartbeat changed its member's expression."""

    NONE = "none"
    UPDATED = "updated"
    UPDATED_AND_RESOLVED = "updated and resolved"
    """The topics of the new one are known already, or there is no new one: the assignment can be computed now."""


def record_regex(draft: Draft, old: ConsumerGroupMember, new: ConsumerGroupMember) -> RegexChange:
    """Record a change of the member's expression, and schedule a resolution if one is due.

    Raises RequestRefused with INVALID_REGULAR_EXPRESSION.
    """
    change, is_new = _changed(draft, old, new)
    if is_new or draft.group.subscribed_regexes:
        _schedule_resolution(draft, old, new, is_new=is_new)
    return change


def resolve(shard: Shard, resolution: RegexResolution) -> None:
    """Find the topics of these expressions, and bump the group epoch if they have changed."""
    group = shard.groups.get(resolution.group_id)
    if not isinstance(group, ConsumerGroup):
        return
    draft = Draft(shard, group)
    topics = group.subscribed_topics
    bump = False
    for regex in resolution.regexes:
        if regex not in group.subscribed_regexes:
            continue
        resolved = ResolvedRegex(_matching(regex, shard.image), shard.image.version, shard.now_ms)
        before = group.resolved_regexes[regex].topics if regex in group.resolved_regexes else ()
        if set(before) != set(resolved.topics):
            bump = True
            topics = with_regex_topics(topics, before, -1)
            topics = with_regex_topics(topics, resolved.topics, +1)
        draft.add(records.resolved_regex(group.group_id, regex, resolved))
    new_hash = metadata_hash(topics, shard.image)
    if bump or new_hash != group.metadata_hash:
        epoch = group.group_epoch + 1
        draft.add(records.group_epoch(group.group_id, epoch, new_hash))
        shard.activity.consumer_group_rebalances += 1
        group.metadata_refresh_deadline_ms = shard.now_ms + METADATA_REFRESH_INTERVAL_MS
        group.metadata_refresh_epoch = epoch
    shard.apply(draft.records)


def _changed(draft: Draft, old: ConsumerGroupMember, new: ConsumerGroupMember) -> tuple[RegexChange, bool]:
    """Return how the member's expression changed, and whether the new one is new to the group."""
    if old.subscribed_topic_regex == new.subscribed_topic_regex:
        return RegexChange.NONE, False
    group = draft.group
    if old.regex is not None and group.subscribed_regexes.get(old.regex, 0) == 1:
        draft.add(records.resolved_regex_tombstone(group.group_id, old.regex))
    if new.regex is None:
        return RegexChange.UPDATED if old.regex is None else RegexChange.UPDATED_AND_RESOLVED, False
    if new.regex not in group.subscribed_regexes:
        check_regex(new.regex)
        return RegexChange.UPDATED, True
    is_resolved = new.regex in group.resolved_regexes
    return RegexChange.UPDATED_AND_RESOLVED if is_resolved else RegexChange.UPDATED, False


def _schedule_resolution(
    draft: Draft, old: ConsumerGroupMember, new: ConsumerGroupMember, *, is_new: bool
) -> None:
    group, shard = draft.group, draft.shard
    age_ms = shard.now_ms - group.last_regex_refresh_ms
    if age_ms <= MIN_REFRESH_INTERVAL_MS:
        return
    counts = dict(group.subscribed_regexes)
    for regex, step in ((old.regex, -1), (new.regex, +1)):
        if regex is not None:
            counts[regex] = counts.get(regex, 0) + step
    subscribed = tuple(regex for regex, count in counts.items() if count > 0)
    due = (
        is_new
        or len(subscribed) != len(group.resolved_regexes)
        or group.last_regex_version < shard.version_with_new_topics
        or age_ms > shard.config.consumer_regex_refresh_interval_ms
    )
    if due and subscribed:
        shard.schedule_if_absent(RegexResolution(group.group_id, regexes=subscribed), 0)


def check_regex(regex: str) -> None:
    """Raise RequestRefused with INVALID_REGULAR_EXPRESSION unless RE2 can parse this."""
    try:
        re2.compile(regex, _quiet())
    except re2.error as error:
        raise RequestRefused(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"{regex!r} is no RE2 expression: {error}"
        ) from error


def _matching(regex: str, image: MetadataImage) -> tuple[str, ...]:
    pattern = re2.compile(regex, _quiet())
    return tuple(sorted(name for name in image.topics if pattern.fullmatch(name)))


def _quiet() -> object:
    """Return RE2 options that keep it from printing errors."""
    options = re2.Options()
    options.log_errors = False
    return options
