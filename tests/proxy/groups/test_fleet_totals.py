"""The recording rules give the truth with any number of replicas, judged by Prometheus' own promtool.

Clusters are drawn by seed: groups of all protocols, members that come through one replica or another or past them all.
The series of each replica come from the product's collector, the truth is counted from what was drawn. Each wrong
aggregation that is planted in the rules has to be found.
"""

import math
import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from proxy.groups.group_metrics import GroupCounts, GroupLabels, families
from proxy.groups.snapshot import BrokerView, ConnectView
from proxy.shadow.view import ShadowView, not_computable
from translation.mending.unowned import Unowned

RULES = Path(__file__).parents[3] / "charts" / "epochgate" / "files" / "rules.yaml"
SEEDS = range(1, 31)
OF_BROKERS = ("classic", "translated", "consumer")
"""Protocols of members that brokers are asked about; ``translated`` and ``consumer`` are members of the new one."""

PLANTED = {
    "members of all replicas, as if each had all": (
        "sum by (namespace, job, group, protocol) (epochgate_group_members)",
        "max by (namespace, job, group, protocol) (epochgate_group_members)",
    ),
    "what the broker says, added up": (
        "max by (namespace, job, group, type) (epochgate_group_broker_members)",
        "sum by (namespace, job, group, type) (epochgate_group_broker_members)",
    ),
    "modes, added up": (
        "(max by (namespace, job, group, mode) (epochgate_group_mode))",
        "(sum by (namespace, job, group, mode) (epochgate_group_mode))",
    ),
    "stuck at all replicas": (
        "(max by (namespace, job, group) (epochgate_group_stuck))",
        "(min by (namespace, job, group) (epochgate_group_stuck))",
    ),
    "stuck, added up": (
        "(max by (namespace, job, group) (epochgate_group_stuck))",
        "(sum by (namespace, job, group) (epochgate_group_stuck))",
    ),
    "not translatable, added up": (
        "(max by (namespace, job, group, reason) (epochgate_group_not_translatable))",
        "(sum by (namespace, job, group, reason) (epochgate_group_not_translatable))",
    ),
    "native members left out": ('protocol=~"consumer|translated"', 'protocol=~"translated"'),
    "everything that is not classic is migrated": ('protocol=~"consumer|translated"', 'protocol!="classic"'),
    "members elsewhere by one protocol": (
        "sum by (namespace, job, group) (epochgate:group_members:sum),",
        'sum by (namespace, job, group) (epochgate:group_members:sum{protocol="classic"}),',
    ),
    "migrated, of all members that there are": (
        "/ (sum by (namespace, job) (epochgate:group_migrating_members) > 0)",
        "/ (sum by (namespace, job) (epochgate:group_members:sum) > 0)",
    ),
    "unowned partitions, added up": (
        "(max by (namespace, job, group) (epochgate_group_unowned_partitions))",
        "(sum by (namespace, job, group) (epochgate_group_unowned_partitions))",
    ),
    "forecasts, added up": (
        "(max by (namespace, job, group, result) (epochgate_group_shadow))",
        "(sum by (namespace, job, group, result) (epochgate_group_shadow))",
    ),
    "moves, added up": (
        "max by (namespace, job, phase) (epochgate_group_moves)\n",
        "sum by (namespace, job, phase) (epochgate_group_moves)\n",
    ),
    "waves, added up": ("max by (namespace, job, wave, state)", "sum by (namespace, job, wave, state)"),
    "what gates say, added up": ("max by (namespace, job, say)", "sum by (namespace, job, say)"),
    "the proof of the replica that has none": (
        "max by (namespace, job, verdict) (epochgate_proof_groups)",
        "min by (namespace, job, verdict) (epochgate_proof_groups)",
    ),
    "too few rebalances": ("(epochgate:rebalances:max >= 3)", "epochgate:rebalances:max"),
    "states of members by one replica": (
        "sum by (namespace, job, protocol, state) (epochgate_members)",
        "max by (namespace, job, protocol, state) (epochgate_members)",
    ),
}

WORKERS = ConnectView(workers=1, connectors=0, tasks=0, leader_url="", rejoins_at=None)


def _unowned(partitions: int) -> Unowned:
    return Unowned(partitions=partitions, since_s=1.0, tries=0, why_not="", text="")


def _shadow(*, is_told: bool) -> ShadowView:
    return (
        ShadowView(computed_at=1.0, why_not=None) if is_told else not_computable("its topics are hidden", 1.0)
    )


class Cluster:
    """Groups as one seed draws them; ``replicas`` has what each replica counts."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)  # noqa: S311
        self.replicas: list[list[GroupCounts]] = [[] for _ in range(1 + seed % 3)]
        self.truth: dict[str, float] = defaultdict(float)
        self.others: list[dict[str, float]] = [{} for _ in self.replicas]
        """Series of each replica that are not about a single group."""
        self._broker, self._migrated = 0, 0
        for number in range(self._draw.randint(2, 7)):
            self._add_group(f"group-{number}")
        self._add_moves()
        if self._broker:
            self.truth["epochgate:migrated:ratio"] = self._migrated / self._broker

    def _add_moves(self) -> None:
        """What the member log says is the same at each; what the proof says is known to one of them."""
        draw = self._draw
        for series, recorded in (
            ('group_moves{phase="held"}', 'moves:max{phase="held"}'),
            ('wave_groups{wave="1",state="over"}', 'wave_groups:max{wave="1",state="over"}'),
            ('group_gates{say="clear"}', 'gates:max{say="clear"}'),
        ):
            number = self.truth[f"epochgate:{recorded}"] = draw.randint(1, 5)
            for others in self.others:
                others[f"epochgate_{series}"] = number
        proves, groups, rebalances = draw.choice(self.others), draw.randint(1, 5), draw.randint(1, 5)
        of_joins = '{kind="join",phase="after"}'
        for others in self.others:
            is_own = others is proves
            others['epochgate_proof_groups{verdict="proven"}'] = groups * is_own
            others[f"epochgate_proof_rebalances{of_joins}"] = rebalances * is_own
            others[f"epochgate_proof_rebalances_stopped_seconds{of_joins}"] = 2 * rebalances * is_own
            others['epochgate_proof_compared_rebalances{verdict="same"}'] = groups * is_own
        self.truth['epochgate:proof_groups:max{verdict="proven"}'] = groups
        self.truth['epochgate:compared_rebalances:max{verdict="same"}'] = groups
        self.truth[f"epochgate:rebalances:max{of_joins}"] = rebalances
        self.truth[f"epochgate:rebalance_stopped:mean_seconds{of_joins}"] = 2 if rebalances >= 3 else math.nan

    def _add_group(self, group_id: str) -> None:
        draw = self._draw
        kind = draw.choice(("classic", "moving", "consumer", "share", "streams", "connect"))
        protocols = ("classic", "translated", "consumer") if kind == "moving" else (kind,)
        here = [
            Counter((draw.choice(protocols), "Stable") for _ in range(draw.randint(0, 3)))
            for _ in self.replicas
        ]
        members = sum(here, Counter[tuple[str, str]]())
        is_polled = kind in (*OF_BROKERS, "moving", "connect") and bool(members) and draw.random() < 0.8
        past = draw.randint(0, 2) if is_polled else 0
        new = sum(count for (protocol, _), count in members.items() if protocol in ("translated", "consumer"))
        old = sum(members.values()) - new + past
        broker = BrokerView(
            asked_at=1.0,
            type="consumer" if new else "classic",
            state="Stable",
            classic=old,
            consumer=new,
            epoch=1,
            members=(),
            error="",
        )
        mode = "translate" if kind == "moving" else "observe"
        why_not = "assignor 'a' is unknown" if kind == "classic" and draw.random() < 0.5 else None
        unowned = draw.randint(1, 3) if kind == "moving" and draw.random() < 0.5 else 0
        is_told = draw.random() < 0.5
        stuck = [bool(one) and draw.random() < 0.3 for one in here]
        for replica, counted, is_stuck in zip(self.replicas, here, stuck, strict=True):
            if counted or draw.random() < 0.5:  # a replica remembers groups whose members have gone elsewhere
                replica.append(
                    GroupCounts(
                        id=group_id,
                        mode=mode,
                        members=counted,
                        broker=broker if is_polled and counted else None,
                        stuck_members=int(is_stuck),
                        is_stuck=is_stuck,
                        gap=0,
                        why_not=why_not if counted else None,
                        connect=WORKERS if kind == "connect" and counted else None,
                        unowned=_unowned(unowned) if unowned and counted else None,
                        shadow=_shadow(is_told=is_told) if mode == "observe" and counted else None,
                    )
                )
        if not members:
            return
        truth = self.truth
        truth[f'epochgate:groups{{mode="{mode}"}}'] += 1
        truth["epochgate:stuck_groups"] += any(stuck)
        if unowned:
            truth["epochgate:unowned_partitions"] += unowned
        if mode == "observe":
            truth[f'epochgate:shadow_groups{{result="{"computed" if is_told else "unknown"}"}}'] += 1
        if why_not:
            truth['epochgate:not_translatable_groups{reason="unknown assignor"}'] += 1
        for (protocol, _), count in members.items():
            truth[f'epochgate:members:sum{{protocol="{protocol}",state="Stable"}}'] += count
        if is_polled and kind != "connect":
            truth[f'epochgate:group_members_elsewhere{{group="{group_id}"}}'] = past
        if kind in (*OF_BROKERS, "moving"):
            everybody = old + new
            truth[f'epochgate:group_migrated:ratio{{group="{group_id}"}}'] = new / everybody
            self._broker, self._migrated = self._broker + everybody, self._migrated + new


def series_of(cluster: Cluster) -> Iterator[dict[str, str]]:
    """What Prometheus scrapes of each replica."""
    for number, groups in enumerate(cluster.replicas):
        for family in families(groups, GroupLabels(1_000)):
            for sample in family.samples:
                labels = {"namespace": "n", "job": "j", "instance": f"proxy-{number}", **sample.labels}
                written = ",".join(f'{name}="{value}"' for name, value in labels.items())
                yield {"series": f"{sample.name}{{{written}}}", "values": f"{sample.value}x3"}
        for series, value in cluster.others[number].items():
            at = f'{{namespace="n",job="j",instance="proxy-{number}",'
            yield {"series": series.replace("{", at, 1), "values": f"{value}x3"}


def questions(cluster: Cluster) -> Iterator[dict[str, object]]:
    """Each recorded series of the truth, and that there are no others."""
    by_name = defaultdict[str, dict[str, float]](dict)
    for series, value in cluster.truth.items():
        name, _, labels = series.partition("{")
        by_name[name]["{" + labels if labels else ""] = value
    for name, expected in by_name.items():
        names = sorted(
            {label.partition("=")[0] for one in expected for label in one.strip("{}").split(",")} - {""}
        )
        yield {
            "expr": f"round(sum by ({','.join(names)}) ({name}), 0.001)",
            "eval_time": "1m",
            "exp_samples": [
                {"labels": one or "{}", "value": round(value, 3)}
                for one, value in expected.items()
                if not math.isnan(value)
            ],
        }


def judge(promtool: str, rules: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "rules.yaml").write_text(rules)
    clusters = [(seed, Cluster(seed)) for seed in SEEDS]
    tests = [
        {
            "name": f"seed {seed}",
            "interval": "1m",
            "input_series": list(series_of(cluster)),
            "promql_expr_test": list(questions(cluster)),
        }
        for seed, cluster in clusters
        if cluster.truth
    ]
    file = folder / "test.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests})
    )
    return subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)


def test_totals_are_the_truth_with_one_two_and_three_replicas(promtool: str, tmp_path: Path) -> None:
    done = judge(promtool, RULES.read_text(), tmp_path)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5_000:]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_wrong_aggregation_is_found(planted: str, promtool: str, tmp_path: Path) -> None:
    right, wrong = PLANTED[planted]
    rules = RULES.read_text()
    assert rules.count(right) == 1
    assert judge(promtool, rules.replace(right, wrong), tmp_path).returncode == 1
