"""`epochgate policy from-readiness`: from the table of waves to files that the proxy takes."""

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from typer.testing import CliRunner, Result

from pipeline import runs
from pipeline.readiness import policy_folder
from pipeline.readiness import policy_set as policy_sets
from pipeline.readiness.output import WAVES
from pipeline.readiness.policy_folder import differences
from pipeline.readiness.policy_kubernetes import LABEL, MOST_BYTES, config_maps
from pipeline.readiness.policy_set import Options, PlannedGroup, policy_set
from pipeline.runs import TABLES_VERSION, Manifest
from protocol_codecs.policy_manifest import MANIFEST
from proxy.cli import command_line
from proxy.config.loader import ConfigError
from proxy.config.policy_source import load_policy_from, policy_of_files
from proxy.runtime.exit_codes import ExitCode
from translation.policy.policy import Mode

FLEET = (("orders", 1, False), ("go", 1, True), ("payments", 2, False), ("no", 3, False))
MISREAD = (
    "yes",
    "No",
    "null",
    "~",
    "1e3",
    "0x1f",
    "1:30",
    "2026-01-01",
    "a: b",
    "- a",
    "# a",
    "'",
    '"',
    "\\",
    "",
)
"""Group ids that YAML reads as something else unless they are quoted."""


def planned(names: Sequence[str]) -> list[PlannedGroup]:
    return [PlannedGroup(name, 1 + n // 3, n + 1, 2, n % 5 == 4) for n, name in enumerate(names)]


def readiness(folder: Path, allowed: Sequence[str] = (), fleet: Any = FLEET) -> Path:
    """The table that readiness writes."""
    rows = [
        (group_id, wave, position, 2, None, "ready", at_once, list(allowed))
        for position, (group_id, wave, at_once) in enumerate(fleet, start=1)
    ]
    (folder / "waves").mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_batches([WAVES.batch(rows)]), folder / "waves" / "part-0.parquet")
    return folder


def run(tables: Path, out: Path, *options: str) -> Result:
    arguments = ["policy", "from-readiness", str(tables), "--out", str(out), *options]
    return CliRunner().invoke(command_line(), arguments)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return readiness(tmp_path / "readiness")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "policy"


def test_the_proxy_moves_each_wave_by_steps_and_what_moves_as_a_whole_at_once(
    tables: Path, out: Path
) -> None:
    answer = run(tables, out)
    assert answer.exit_code == 0, answer.output
    policy = load_policy_from(out, manifest_required=True).policy
    assert policy.wave_of == {group_id: wave for group_id, wave, _ in FLEET}
    assert policy.rule_for("payments").steps == (1, "10%", "50%", "100%")
    assert policy.rule_for("go").steps == ("100%",)
    assert policy.rule_for("other").mode is Mode.OBSERVE
    assert "+ go: wave 1, steps 100%, hold_s 600" in answer.output
    assert "3 waves with 4 groups and 8 members" in answer.output


def test_options_say_what_is_live(tmp_path: Path, out: Path) -> None:
    tables = readiness(tmp_path / "readiness", allowed=["no", "mine"])
    options = (
        "--through-wave",
        "2",
        "--exclude",
        "go",
        "--steps",
        "2, 100%",
        "--hold-s",
        "5",
        "--share",
        "90%",
    )
    answer = run(tables, out, *options)
    assert "1 left out: it is excluded" in answer.output
    assert "1 left out: its wave is not live" in answer.output
    policy = load_policy_from(out).policy
    assert policy.wave_of == {"orders": 1, "payments": 2}
    assert (policy.waves.share, policy.assignors_allowed) == ("90%", ("mine", "no"))
    rule = policy.rule_for("orders")
    assert (rule.steps, rule.hold_s) == ((2, "100%"), 5)


def test_the_same_table_and_options_give_the_same_files_and_write_nothing(tables: Path, out: Path) -> None:
    run(tables, out)
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in out.iterdir()}
    answer = run(tables, out)
    assert f"0 of {len(before)} files written, 0 removed" in answer.output
    assert {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in out.iterdir()} == before


def test_what_differs_is_said_and_what_is_no_more_is_removed(tmp_path: Path, tables: Path, out: Path) -> None:
    run(tables, out)
    later = readiness(tmp_path / "later", fleet=(("orders", 2, False), ("new", 2, False)))
    answer = run(later, out, "--hold-s", "0")
    assert answer.output.splitlines()[:5] == [
        "- go: wave 1, steps 100%, hold_s 600",
        "+ new: wave 2, steps 1, 10%, 50%, 100%, hold_s 0",
        "- no: wave 3, steps 1, 10%, 50%, 100%, hold_s 600",
        "  orders: wave 1, steps 1, 10%, 50%, 100%, hold_s 600 -> wave 2, steps 1, 10%, 50%, 100%, hold_s 0",
        "- payments: wave 2, steps 1, 10%, 50%, 100%, hold_s 600",
    ]
    assert sorted(file.name for file in out.iterdir()) == [MANIFEST, "wave-02.yaml"]
    assert load_policy_from(out, manifest_required=True).left_out == ()


def test_files_of_people_are_left_alone(tables: Path, out: Path) -> None:
    out.mkdir()
    (out / "00-mine.yaml").write_text("rules: [{group: orders, mode: reject}]\n")
    assert run(tables, out).exit_code == 0
    assert load_policy_from(out).policy.rule_for("orders").mode is Mode.REJECT, "the first rule counts"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wave-01.yaml", "was changed after it was generated"),
        ("wave-02.yaml", "was not generated"),
        (MANIFEST, "was not generated"),
    ],
)
def test_what_somebody_has_written_is_not_written_over(tables: Path, out: Path, name: str, said: str) -> None:
    run(tables, out, "--through-wave", "1")
    mine = (out / name).read_text() + "# mine\n" if said.startswith("was changed") else "rules: []\n"
    (out / name).write_text(mine)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    answer = run(tables, out)
    assert answer.exit_code == ExitCode.FAILED
    assert f"{out / name}: {said}" in answer.output.replace("\n", "")
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before, "and nothing else either"


def test_a_run_that_is_killed_leaves_nothing_that_the_proxy_takes_and_the_next_one_mends_it(
    tables: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tables, out)
    replace, replaced = policy_folder._replace, list[str]()

    def killed(file: Path, content: bytes) -> None:
        if replaced:
            raise OSError(errno.ENOSPC, "No space left on device", str(file))
        replaced.append(file.name)
        replace(file, content)

    with monkeypatch.context() as patched:
        patched.setattr(policy_folder, "_replace", killed)
        assert "No space left on device" in run(tables, out, "--hold-s", "0").output
    assert replaced == ["wave-01.yaml"], "the manifest is the last"
    with pytest.raises(ConfigError, match=r"wave-01\.yaml: not the file that manifest\.json names"):
        load_policy_from(out)
    assert run(tables, out, "--hold-s", "0").exit_code == 0
    assert load_policy_from(out).policy.rule_for("orders").hold_s == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--steps", "50%,10%"), "`steps` have to rise"),
        (("--share", "most"), "neither a number of members nor a share"),
    ],
)
def test_what_the_proxy_would_refuse_is_not_written(
    tables: Path, out: Path, options: tuple[str, ...], said: str
) -> None:
    answer = run(tables, out, *options)
    assert answer.exit_code == ExitCode.FAILED
    assert said in answer.output
    assert not out.exists()


def test_a_folder_without_the_table_is_named(tmp_path: Path, out: Path) -> None:
    answer = run(tmp_path, out)
    assert answer.exit_code == ExitCode.FAILED
    assert "no table of `epochgate pipeline readiness`" in answer.output
    (tmp_path / "waves").mkdir()
    old = pa.table({"group_id": ["g"], "wave": [1], "position": [1], "members": [1]})
    parquet.write_table(old, tmp_path / "waves" / "part-0.parquet")
    assert "has no column at_once" in run(tmp_path, out).output


def test_the_table_of_the_run_that_holds_is_read(tmp_path: Path, out: Path) -> None:
    readiness(tmp_path / "runs" / "old", fleet=[("gone", 1, False)])
    readiness(tmp_path / "runs" / "new")
    manifest = Manifest(
        tables_version=TABLES_VERSION,
        journal_version=1,
        run="new",
        command="readiness",
        form="parquet",
        parts={"waves": ("runs/new/waves",)},
    )
    (tmp_path / runs.MANIFEST).write_bytes(msgspec.json.encode(manifest))

    assert run(tmp_path, out).exit_code == 0
    assert load_policy_from(out, manifest_required=True).policy.wave_of.keys() == {name for name, *_ in FLEET}

    newer = msgspec.structs.replace(manifest, tables_version=TABLES_VERSION + 1)
    (tmp_path / runs.MANIFEST).write_bytes(msgspec.json.encode(newer))
    refused = run(tmp_path, out)
    assert refused.exit_code == ExitCode.FAILED
    assert "written by a newer Epochgate (tables version 2, known here is 1)" in refused.output


def test_versions_of_a_delta_table_are_read_without_spark(tmp_path: Path, out: Path) -> None:
    """The log as Delta 4.4 writes it: files that a version adds and that later ones take away."""
    readiness(tmp_path, fleet=[("gone", 1, False)])
    table = tmp_path / "waves"
    (table / "part-0.parquet").rename(table / "gone 1.parquet")
    readiness(tmp_path)
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    versions = [
        [protocol, {"add": {"path": "gone%201.parquet"}}],
        [{"commitInfo": {}}, {"remove": {"path": "gone%201.parquet"}}, {"add": {"path": "part-0.parquet"}}],
        [{"remove": {"path": "part-0.parquet"}}, {"add": {"path": "of a killed run.parquet"}}],
    ]
    (table / "_delta_log").mkdir()
    for number, actions in enumerate(versions):
        text = "\n".join(msgspec.json.encode(action).decode() for action in actions)
        (table / "_delta_log" / f"{number:020}.json").write_text(text, encoding="utf-8")
    manifest = Manifest(
        tables_version=TABLES_VERSION,
        journal_version=1,
        run="a",
        command="readiness",
        form="delta",
        versions={"waves": 1},
    )
    (tmp_path / runs.MANIFEST).write_bytes(msgspec.json.encode(manifest))

    answer = run(tmp_path, out)

    assert answer.exit_code == 0, answer.output
    assert load_policy_from(out, manifest_required=True).policy.wave_of.keys() == {name for name, *_ in FLEET}
    emptied = msgspec.structs.replace(manifest, versions={"waves": 3})
    (tmp_path / runs.MANIFEST).write_bytes(msgspec.json.encode(emptied))
    last = [{"remove": {"path": "of a killed run.parquet"}}]
    (table / "_delta_log" / f"{3:020}.json").write_bytes(msgspec.json.encode(last[0]))
    assert "0 waves with 0 groups" in run(tmp_path, out).output
    versions[0][0] = {
        "protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    }
    (table / "_delta_log" / f"{0:020}.json").write_bytes(
        b"\n".join(msgspec.json.encode(action) for action in versions[0])
    )
    assert "has features that are read by Spark only" in run(tmp_path, out).output


@given(st.lists(st.one_of(st.sampled_from(MISREAD), st.text(max_size=300)), unique=True, max_size=12))
def test_every_group_id_is_read_back_as_it_is(names: list[str]) -> None:
    made = policy_set(planned(names), Options())
    policy = policy_of_files("set", made.files, manifest_required=True).policy
    assert policy.wave_of.keys() == {name for name in names if 0 < len(name) <= 255}
    assert len(policy.wave_of) + len(made.skipped) == len(names)
    maps = [yaml.safe_load(content) for content in config_maps(made.files, "p").values()]
    again = {key: text.encode() for one in maps for key, text in one["data"].items()}
    assert again == made.files
    assert not list(differences(made.files, again))


def test_no_file_is_too_large_for_a_config_map(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"group-{n:06}-{'x' * 200}" for n in range(20_000)]
    rows = [PlannedGroup(name, 1 if n < 2 else 2, n, 1, n % 2 == 0) for n, name in enumerate(names)]
    made = policy_set(rows, Options())
    assert max(map(len, made.files.values())) < MOST_BYTES
    maps = {name: yaml.load(one, yaml.CSafeLoader) for name, one in config_maps(made.files, "p").items()}
    assert [*maps][-1] == "p-manifest.yaml"
    assert {one["metadata"]["labels"][LABEL] for one in maps.values()} == {"p"}
    assert max(sum(map(len, one["data"].values())) for one in maps.values()) < 1024 * 1024
    assert len(maps) == 7
    assert len(policy_of_files("set", made.files).policy.wave_of) == 20_000
    monkeypatch.setattr(policy_sets, "MOST_BYTES", 10)
    assert len(policy_set(rows[:3], Options()).files) == 4


@pytest.mark.parametrize("form", ["configmaps", "helm-values"])
def test_other_forms_have_the_same_files(tables: Path, out: Path, tmp_path: Path, form: str) -> None:
    run(tables, tmp_path / "folder")
    answer = run(tables, out, "--as", form, "--name", "main")
    assert answer.exit_code == 0, answer.output
    documents = [yaml.safe_load(file.read_text()) for file in sorted(out.iterdir())]
    if form == "configmaps":
        assert f"kubectl apply --server-side -f {out}" in answer.output.replace("\n", "")
        assert [one["metadata"]["name"] for one in documents] == ["main-0", "main-manifest"]
        found = {key: text for one in documents for key, text in one["data"].items()}
    else:
        found = documents[0]["policy"]["set"]["files"]
    assert found == {file.name: file.read_text() for file in (tmp_path / "folder").iterdir()}
    assert "0 of" in run(tables, out, "--as", form, "--name", "main").output, "and it is deterministic"
