"""The recording rules of the whole cluster, with no exporter, one and two: judged by Prometheus' own promtool."""

import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from proxy.exporter.cluster_census import ClusterCount, Gap, Kind, MemberKind
from proxy.exporter.families import cluster_families

RULES = Path(__file__).parents[3] / "charts" / "epochgate" / "files" / "rules.yaml"
CLASSIC, MOVED = MemberKind("classic", "consumer", "classic"), MemberKind("consumer", "consumer", "consumer")
MIXED = MemberKind("consumer", "consumer", "classic")
OTHERS = {MemberKind("classic", "connect", "classic"): 6, MemberKind("share", "share", "share"): 1}


def count(members: Mapping[MemberKind, int], *, groups: int = 1, gaps: int = 0) -> ClusterCount:
    kinds = Counter({Kind(*kind[:2]): groups for kind in members})
    return ClusterCount(kinds, Counter(members), Counter({Gap.GROUPS: gaps} if gaps else {}))


CASES: dict[str, tuple[list[ClusterCount | None], dict[str, float]]] = {
    "nothing has moved, and other groups do not count": (
        [count({CLASSIC: 3, MOVED: 0, **OTHERS})],
        {"migrated:ratio": 0, "groups:max": 4, "members:max": 10},
    ),
    "half of the members, one of them in a group that moves": (
        [count({CLASSIC: 1, MIXED: 1, MOVED: 2, **OTHERS})],
        {"migrated:ratio": 0.5, "groups:max": 4, "members:max": 11},
    ),
    "two exporters count the same": (
        [count({CLASSIC: 1, MOVED: 3})] * 2,
        {"migrated:ratio": 0.75, "groups:max": 2, "members:max": 4},
    ),
    "one of two lacks groups": (
        [count({CLASSIC: 1, MOVED: 3}), count({CLASSIC: 0, MOVED: 9}, groups=5, gaps=2)],
        {"migrated:ratio": 0.75, "groups:max": 2, "members:max": 4},
    ),
    "one of two is about to start": (
        [None, count({CLASSIC: 1, MOVED: 1})],
        {"migrated:ratio": 0.5, "groups:max": 2, "members:max": 2},
    ),
    "the only one lacks groups": ([count({CLASSIC: 1}, gaps=1)], {}),
    "no exporter": ([], {}),
}
PLANTED = {
    "exporters added up": (
        "max by (namespace, job, type, protocol, member_type)",
        "sum by (namespace, job, type, protocol, member_type)",
    ),
    "groups of exporters added up": (
        "max by (namespace, job, type, protocol)",
        "sum by (namespace, job, type, protocol)",
    ),
    "counts that lack something": (
        "(epochgate_cluster_members and on (namespace, job, instance) epochgate_cluster_complete == 1)",
        "(epochgate_cluster_members)",
    ),
    "all groups of the new type are migrated": (
        'cluster_members:max{protocol="consumer",member_type="consumer"}',
        'cluster_members:max{type="consumer"}',
    ),
    "of all members": (
        '(epochgate:cluster_members:max{protocol="consumer"})',
        "(epochgate:cluster_members:max)",
    ),
}


def series_of(exporters: list[ClusterCount | None]) -> Iterator[dict[str, str]]:
    for number, one in enumerate(exporters):
        for family in cluster_families(one):
            for sample in family.samples:
                labels = {"namespace": "n", "job": "e", "instance": f"exporter-{number}", **sample.labels}
                written = ",".join(f'{name}="{value}"' for name, value in labels.items())
                yield {"series": f"{sample.name}{{{written}}}", "values": f"{float(sample.value)}x3"}


def judge(promtool: str, rules: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "rules.yaml").write_text(rules)
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": list(series_of(exporters)),
            "promql_expr_test": [
                {
                    "expr": f"sum(epochgate:cluster_{recorded})",
                    "eval_time": "1m",
                    "exp_samples": [{"labels": "{}", "value": truth[recorded]}] if recorded in truth else [],
                }
                for recorded in ("groups:max", "members:max", "migrated:ratio")
            ],
        }
        for name, (exporters, truth) in CASES.items()
    ]
    file = folder / "test.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests})
    )
    return subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)


def test_the_rules_give_the_truth_whatever_number_of_exporters_there_is(promtool, tmp_path):
    done = judge(promtool, RULES.read_text(), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("planted", PLANTED)
def test_a_wrong_expression_is_found(planted, promtool, tmp_path):
    right, wrong = PLANTED[planted]
    rules = RULES.read_text()
    assert rules.count(right) == 1
    assert judge(promtool, rules.replace(right, wrong), tmp_path).returncode == 1


PACES: dict[str, tuple[str, str, list[float]]] = {
    "one a minute, and sixty are left": ("0+1x60", "120-1x60", [3600.0]),
    "none was migrated": ("20x60", "60x60", []),
    "members go back": ("60-1x60", "0+1x60", []),
    "all are migrated": ("60x60", "0x60", [0.0]),
    "there is no complete count": ("_x60", "_x60", []),
}
"""Migrated and other members, a sample a minute; the seconds that are left after an hour."""


@pytest.mark.parametrize("case", PACES)
def test_the_time_that_is_left_follows_from_the_pace_of_a_day(case, promtool, tmp_path):
    migrated, others, expected = PACES[case]
    at, group = 'namespace="n",job="e",instance="x"', 'protocol="consumer",member_type'
    series = {
        f"epochgate_cluster_complete{{{at}}}": "1x60",
        f'epochgate_cluster_members{{{at},type="consumer",{group}="consumer"}}': migrated,
        f'epochgate_cluster_members{{{at},type="classic",{group}="classic"}}': others,
    }
    asked = {
        "expr": "round(sum(epochgate:cluster_ends_in:seconds))",
        "eval_time": "60m",
        "exp_samples": [{"labels": "{}", "value": value} for value in expected],
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [asked],
    }
    file = tmp_path / "test.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]})
    )
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
