"""A policy of waves in force: on the embedded broker, live groups move wave after wave, and others stay as they are.

``test_waves_on_kafka.py`` tells the same from a capture on, with a real broker and many clients; that takes minutes.
"""

from pathlib import Path

import pytest
from support.clients import CONFLUENT
from support.consumers import Consumers
from support.embedded import Embedded
from support.entry import running_proxy
from support.ownership import overlaps
from support.waiting import eventually

from proxy.config.policy_source import load_policy_from
from tests.pipeline.test_policy_from_readiness import readiness, run

FIRST, SECOND, OTHER = "first", "no", "in-no-wave"
METRIC = 'epochgate_wave_groups{{state="{state}",wave="{wave}"}} {groups}.0'


@pytest.mark.timeout(300)
def test_a_wave_moves_when_the_one_before_is_over(tmp_path: Path) -> None:
    policy = tmp_path / "proxy" / "policy"
    policy.mkdir(parents=True)
    consumers = Consumers(tmp_path)
    tables = readiness(tmp_path / "readiness", fleet=((FIRST, 1, False), (SECOND, 2, True)))
    with (
        Embedded(nodes=1) as kafka,
        running_proxy(kafka.bootstrap, tmp_path / "proxy", policy_file="policy") as proxy,
    ):

        def kinds(group: str) -> list[str]:
            described = kafka.describe(group)
            return [] if described is None else [one.member_type for one in described.members]

        def second_wave_follows() -> bool:
            later, before = kinds(SECOND), kinds(FIRST)  # in this order: what has moved stays so
            assert "consumer" not in later or before == ["consumer"] * 2, (before, later)
            return later == ["consumer"] * 2

        try:
            members = {
                group: [consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range") for _ in range(2)]
                for group in (FIRST, SECOND, OTHER)
                for topic in [kafka.new_topic(partitions=2)]
            }
            for group, both in members.items():
                consumers.wait_until(
                    lambda both=both: [len(one.owned()) for one in both] == [1, 1],
                    f"{group} shares its partitions",
                )
            answer = run(tables, policy, "--steps", "1,100%", "--hold-s", "0")
            assert answer.exit_code == 0, answer.output
            assert load_policy_from(policy).policy.wave_of == {FIRST: 1, SECOND: 2}
            eventually(second_wave_follows, what="the second wave is moved", timeout_s=120, between_s=0.2)
            for wave in (1, 2):
                eventually(
                    lambda wave=wave: METRIC.format(state="over", wave=wave, groups=1) in proxy.metrics(),
                    what=f"wave {wave} is over",
                )
            assert len(kafka.describe_classic(OTHER).members) == 2
            assert kinds(OTHER) == []
        finally:
            consumers.end()
    assert overlaps(consumers.logs) == []
