"""The metrics of groups: what is said of what is not known, and what is left out."""

from prometheus_client.metrics_core import Metric

from proxy.exporter.families import LeftOut, Shown, count_series, families
from proxy.groups.lag.readings import GroupLag, Partition, PartitionLag, Unknown, Why

NO_LEADER = Unknown(Why.NO_LEADER)
BOTH = ("kafka_exporter", "burrow")


def shown(group: str = "g", members: int | None = 2, **partitions: PartitionLag) -> Shown:
    """`a0=...`: partition 0 of topic a."""
    found = {Partition(name[0], int(name[1:])): one for name, one in partitions.items()}
    return Shown(lag=GroupLag(group_id=group, read_at=0, partitions=found), age_s=5, members=members)


def at(committed: int | Unknown | None, end: int | Unknown) -> PartitionLag:
    return PartitionLag(committed=committed, end=end)


def values(found: list[Metric]) -> dict[str, float]:
    """`name{topic,partition}` of one group -> value."""
    return {
        f"{sample.name}{{{','.join(v for k, v in sample.labels.items() if k in ('topic', 'partition', 'reason'))}}}": (
            sample.value
        )
        for metric in found
        for sample in metric.samples
    }


def made(*groups: Shown, max_series: int = 1000, left_out: LeftOut | None = None) -> dict[str, float]:
    return values(
        list(families(groups, left_out or LeftOut(), names=BOTH, cluster="c", max_series=max_series))
    )


def test_a_partition_without_a_commit_is_minus_one_and_no_part_of_the_lag():
    found = made(shown(a0=at(3, 10), a1=at(None, 7)))
    assert found["kafka_consumergroup_current_offset{a,1}"] == -1
    assert found["kafka_consumergroup_lag{a,1}"] == -1
    assert found["kafka_consumergroup_current_offset_sum{a}"] == 2
    assert found["kafka_consumergroup_lag_sum{a}"] == 7
    assert "burrow_kafka_consumer_partition_lag{a,1}" not in found
    assert found["burrow_kafka_consumer_lag_total{}"] == 7


def test_where_an_end_is_not_known_there_is_no_lag_and_no_sum_with_it():
    found = made(shown(a0=at(3, 10), a1=at(4, NO_LEADER), b0=at(1, 2)))
    assert found["kafka_consumergroup_current_offset{a,1}"] == 4
    assert "kafka_consumergroup_lag{a,1}" not in found
    assert found["kafka_consumergroup_lag{a,0}"] == 7
    assert "kafka_consumergroup_lag_sum{a}" not in found
    assert found["kafka_consumergroup_lag_sum{b}"] == 1
    assert found["kafka_consumergroup_current_offset_sum{a}"] == 7
    assert "burrow_kafka_consumer_lag_total{}" not in found
    assert found["burrow_kafka_consumer_partition_lag{b,0}"] == 1


def test_where_a_commit_is_not_known_there_is_no_sum_with_it():
    found = made(shown(a0=at(3, 10), a1=at(Unknown(Why.REFUSED), 5)))
    assert "kafka_consumergroup_current_offset{a,1}" not in found
    assert "kafka_consumergroup_current_offset_sum{a}" not in found
    assert "kafka_consumergroup_lag_sum{a}" not in found
    assert "burrow_kafka_consumer_lag_total{}" not in found


def test_an_end_that_is_not_known_of_a_partition_without_a_commit_is_not_minus_one():
    found = made(shown(a0=at(3, 10), a1=at(None, NO_LEADER)))
    assert "kafka_consumergroup_lag{a,1}" not in found
    assert "kafka_consumergroup_lag_sum{a}" not in found
    assert found["burrow_kafka_consumer_lag_total{}"] == 7


def test_members_that_are_not_known_are_not_zero():
    assert made(shown(members=0))["kafka_consumergroup_members{}"] == 0
    assert "kafka_consumergroup_members{}" not in made(shown(members=None))


def test_the_age_of_the_reading_is_told():
    assert made(shown())["epochgate_exporter_reading_age_seconds{}"] == 5


def test_a_group_that_does_not_fit_is_left_out_whole_and_counted():
    small, large = shown("small", a0=at(1, 2)), shown("large", a0=at(1, 2), b0=at(1, 2))
    room = count_series(small, BOTH)
    found = list(
        families(
            [large, small],
            LeftOut(max_groups=4, unknown=5),
            names=BOTH,
            cluster="c",
            max_series=room,
        )
    )
    ids = {sample.labels.get("consumergroup") for metric in found for sample in metric.samples}
    assert "small" in ids
    assert "large" not in ids
    of_groups = [
        one for metric in found for one in metric.samples if one.name != "epochgate_exporter_left_out_groups"
    ]
    assert len(of_groups) == room
    assert values(found)["epochgate_exporter_left_out_groups{max_series}"] == 1
    assert values(found)["epochgate_exporter_left_out_groups{max_groups}"] == 4
    assert values(found)["epochgate_exporter_left_out_groups{unknown}"] == 5


def test_only_the_names_that_were_asked_for():
    for name, others in (("kafka_exporter", "burrow_"), ("burrow", "kafka_")):
        found = families([shown(a0=at(1, 2))], LeftOut(), names=(name,), cluster="c", max_series=1000)
        assert not [one for one in values(list(found)) if one.startswith(others)]
