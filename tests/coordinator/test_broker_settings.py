"""``python -m coordinator.broker --set``: Kafka's names and Kafka's limits."""

import subprocess
import sys

import pytest

from coordinator.broker_settings import NAMES, value_of, with_settings
from coordinator.config import CoordinatorConfig, MigrationPolicy

DEFAULT = CoordinatorConfig()
COMMAND = [sys.executable, "-m", "coordinator.broker"]


def test_every_setting_is_set_under_its_own_name():
    changed = {
        "group.consumer.assignors": "range",
        "group.consumer.migration.policy": "UPGRADE",
        "group.consumer.max.size": "7",
        "group.share.max.share.sessions": "8",
        "group.share.partition.max.record.locks": "300",
    }

    config = with_settings(DEFAULT, changed)

    assert config.consumer_assignors == ("range",)
    assert config.consumer_migration_policy is MigrationPolicy.UPGRADE
    assert config.consumer_max_size == 7
    assert config.share_max_sessions == 8
    assert config.share_partition_max_record_locks == 300


def test_the_defaults_are_those_of_the_coordinator():
    assert with_settings(DEFAULT, {}) == DEFAULT


def test_the_defaults_of_consumer_groups_are_kafkas():
    """Kafka names its assignors where KIP-848 has classes."""
    defaults = {
        "group.consumer.session.timeout.ms": 45_000,
        "group.consumer.min.session.timeout.ms": 45_000,
        "group.consumer.max.session.timeout.ms": 60_000,
        "group.consumer.heartbeat.interval.ms": 5_000,
        "group.consumer.min.heartbeat.interval.ms": 5_000,
        "group.consumer.max.heartbeat.interval.ms": 15_000,
        "group.consumer.max.size": 2**31 - 1,
    }

    assert {name: value_of(DEFAULT, name) for name in defaults} == defaults
    assert DEFAULT.consumer_assignors == ("uniform", "range")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"group.consumer.nonsense": "1"}, "unknown setting group.consumer.nonsense"),
        ({"group.consumer.max.size": "many"}, "group.consumer.max.size: 'many' is no number"),
        ({"group.consumer.max.size": "0"}, "0 is not between 1 and"),
        ({"group.share.max.size": "1001"}, "1001 is not between 1 and 1000"),
        ({"group.consumer.assignors": "range,sticky"}, "'sticky' is none of uniform, range"),
        ({"group.consumer.migration.policy": "sideways"}, "'sideways' is none of bidirectional, upgrade"),
        (
            {"group.consumer.session.timeout.ms": "6000"},
            "group.consumer.session.timeout.ms is not between group.consumer.min.session.timeout.ms and",
        ),
        (
            {"group.share.min.session.timeout.ms": "5000", "group.share.session.timeout.ms": "5000"},
            "group.share.session.timeout.ms is not above group.share.heartbeat.interval.ms",
        ),
    ],
)
def test_what_kafka_would_not_start_with_is_refused(settings: dict[str, str], reason: str):
    with pytest.raises(ValueError, match="group") as refused:
        with_settings(DEFAULT, settings)

    assert reason in str(refused.value)


def test_the_command_lists_all_of_them():
    done = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True)

    assert [name for name in NAMES if f"  {name}=" not in done.stdout] == []


@pytest.mark.parametrize("option", ["group.share.max.size", "group.share.max.size=0"])
def test_the_command_ends_with_the_reason(option: str):
    done = subprocess.run([*COMMAND, "--set", option], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "argument --set" in done.stderr
