"""The class of each metric: how its series are combined over replicas. For docs and tests; no proxy loads it.

Those of the exporter that count the cluster are in it too.

Counters, histograms and summaries are each process's own, and so is a gauge that is in neither table. Of
``epochgate_fleet_records_total`` only what is ``written`` is; each process reads all records.
"""

from enum import StrEnum

from proxy.metrics.group_families import PREFIX


class Class(StrEnum):
    """How series of several processes are combined."""

    ADDITIVE = "sum"
    """Each process has its own: add them up."""
    EVERYBODYS = "max"
    """What brokers, the policy, the member log or the journal say, the same at each that knows it: take the highest."""
    ONE_PROCESS = "alert"
    """About a single process: the lowest or highest, to alert; never a sum."""


_EVERYBODYS = frozenset(
    {
        "cluster_complete",
        "cluster_gaps",
        "cluster_groups",
        "cluster_members",
        "connect_rejoin_timestamp_seconds",
        "fleet_members",
        "fleet_replicas",
        "fleet_topic_settings_wrong",
        "group_broker_members",
        "group_epoch_gap",
        "group_gates",
        "group_mode",
        "group_moves",
        "group_not_translatable",
        "group_shadow",
        "group_shadow_empty_members",
        "group_shadow_moved_partitions",
        "group_stuck",
        "group_unowned_partitions",
        "known_nodes",
        "proof_compared_rebalances",
        "proof_groups",
        "proof_rebalances",
        "proof_rebalances_stopped_seconds",
        "wave_groups",
    }
)
_ONE_PROCESS = frozenset(
    {
        "build_info",
        "config_is_current",
        "fleet_expires",
        "fleet_log_away",
        "fleet_log_refused",
        "fleet_newest_record_age_seconds",
        "fleet_oldest_unresolved_seconds",
        "fleet_replay_seconds",
        "policy_is_current",
        "policy_version",
        "preflight_asked_timestamp_seconds",
        "preflight_checks",
        "proof_behind_seconds",
        "proof_waiting_events",
        "ready",
        "tls_certificate_expiry_timestamp_seconds",
        "tls_crl_expiry_timestamp_seconds",
        "tls_is_current",
        "unlabelled_groups",
        "unreachable_nodes",
    }
)


def class_of(name: str) -> Class:
    """Return the class of a metric, by its name with the prefix."""
    short = name.removeprefix(PREFIX)
    if short in _EVERYBODYS:
        return Class.EVERYBODYS
    return Class.ONE_PROCESS if short in _ONE_PROCESS else Class.ADDITIVE


NAMED = frozenset(PREFIX + short for short in _EVERYBODYS | _ONE_PROCESS)
"""The metrics that are not each process's own."""
