"""A policy of several files: taken as a whole, in the order of their names, or not at all if a part is missing."""

from pathlib import Path

import pytest
import trio
import trio.testing

from protocol_codecs.policy_manifest import MANIFEST, generated, manifest_of
from proxy.config import policy_source
from proxy.config.loader import ConfigError
from proxy.config.policy_source import load_policy_from
from proxy.metrics.registry import Metrics
from proxy.reload.policy_reloader import PolicyReloader
from proxy.runtime.file_watcher import POLL_INTERVAL_S
from tests.proxy.reload.reloading import inline, watch
from translation.policy.policy import Mode, Policy, Rule

FIRST = b"rules: [{group: payments, mode: translate}]\n"
LAST = b"default: observe\nrules: [{pattern: '.*', mode: reject}]\nassignors_allowed: [mine]\n"


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def refusal(folder: Path, *, manifest_required: bool = False) -> str:
    with pytest.raises(ConfigError) as refused:
        load_policy_from(folder, manifest_required=manifest_required)
    return str(refused.value)


def test_the_files_of_a_directory_count_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, {"20-rest.yaml": LAST, "10-first.yaml": FIRST, "notes.txt": b"?", ".hidden.yaml": b"?"})
    policy = load_policy_from(tmp_path).policy
    assert policy.rule_for("payments").mode is Mode.TRANSLATE
    assert policy.rule_for("other").mode is Mode.REJECT
    assert policy.assignors_allowed == ("mine",)
    assert load_policy_from(write(tmp_path / "empty", {})).policy == Policy()


def test_the_digest_is_that_of_names_and_contents(tmp_path: Path) -> None:
    def digest(folder: str, files: dict[str, bytes]) -> str:
        return load_policy_from(write(tmp_path / folder, files)).digest

    both = digest("one", {"a.yaml": FIRST, "b.yaml": LAST})
    assert both == digest("same", {"b.yaml": LAST, "a.yaml": FIRST})
    others = {
        digest("renamed", {"a.yaml": FIRST, "c.yaml": LAST}),
        digest("changed", {"a.yaml": FIRST, "b.yaml": LAST + b"#"}),
        digest("fewer", {"a.yaml": FIRST}),
    }
    assert len(others) == 3
    assert both not in others


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.yaml": FIRST, "b.yaml": b"rules: [{group: g}]\n"}, "/b.yaml:1:9: rules[0]"),
        ({"a.yaml": FIRST, "b.yaml": b"\xff"}, "/b.yaml: can't be read"),
        (
            {"a.yaml": b"default: observe\n", "b.yaml": b"default: reject\n"},
            "/b.yaml: `default` is given by a.yaml",
        ),
        ({"a.yaml": b"waves: {}\n", "b.yaml": b"waves: {}\n"}, "/b.yaml: `waves` is given by a.yaml"),
        ({MANIFEST: b"{}"}, f"/{MANIFEST}: not a manifest"),
        ({MANIFEST: manifest_of({"a.yaml": FIRST})}, "/a.yaml: not there"),
        ({MANIFEST: manifest_of({"a.yaml": FIRST}), "a.yaml": LAST}, "/a.yaml: not the file that"),
        (
            {
                "a.yaml": FIRST,
                MANIFEST: manifest_of({"a.yaml": FIRST}).replace(b'"digest": "', b'"digest": "0'),
            },
            f"/{MANIFEST}: its digest",
        ),
    ],
)
def test_a_bad_set_is_refused_with_the_name_of_the_file(
    tmp_path: Path, files: dict[str, bytes], said: str
) -> None:
    assert f"{tmp_path}{said}" in refusal(write(tmp_path, files))


def test_a_manifest_may_be_demanded(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": FIRST})
    assert "no manifest.json" in refusal(tmp_path, manifest_required=True)
    assert "not a directory" in refusal(tmp_path / "a.yaml", manifest_required=True)
    write(tmp_path, {MANIFEST: manifest_of({"a.yaml": FIRST})})
    assert load_policy_from(tmp_path, manifest_required=True).policy.rules[0].group == "payments"


def test_what_people_wrote_stands_beside_a_manifest_and_what_was_generated_for_another_does_not(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"a.yaml": FIRST, MANIFEST: manifest_of({"a.yaml": FIRST})})
    whole = load_policy_from(tmp_path)
    write(tmp_path, {"old.yaml": generated(LAST)})
    assert load_policy_from(tmp_path) == whole._replace(left_out=("old.yaml",))
    assert load_policy_from(tmp_path, manifest_required=True) == whole._replace(left_out=("old.yaml",))
    write(tmp_path, {"mine.yaml": LAST})
    assert load_policy_from(tmp_path).policy.rule_for("other").mode is Mode.REJECT
    assert "/mine.yaml: not named by" in refusal(tmp_path, manifest_required=True)


def test_what_has_no_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_source, "MOST_FILES", 2)
    monkeypatch.setattr(policy_source, "MOST_BYTES", 100)
    write(tmp_path, {"a.yaml": b"# " + 60 * b"a", "b.yaml": b"# " + 30 * b"a"})
    assert load_policy_from(tmp_path).policy == Policy()
    write(tmp_path, {"b.yaml": b"# " + 60 * b"a"})
    assert "more than 100 bytes" in refusal(tmp_path)
    write(tmp_path, {"b.yaml": b"", "c.yaml": b""})
    assert "3 files, more than 2" in refusal(tmp_path)


def test_a_directory_that_changes_meanwhile_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes swaps a symbolic link between two files that are read."""
    old = {"a.yaml": FIRST, "b.yaml": b""}
    new = {"a.yaml": b"", "b.yaml": FIRST}
    readings = iter([{**new, "a.yaml": FIRST}, new, new, old])
    monkeypatch.setattr(policy_source, "_reading", lambda _: next(readings))
    loaded = load_policy_from(tmp_path)
    assert len(loaded.policy.rules) == 1, "and not both files of two sets"
    always = iter([{"a.yaml": bytes(n)} for n in range(20)])
    monkeypatch.setattr(policy_source, "_reading", lambda _: next(always))
    assert "change while they are read" in refusal(tmp_path)


class Proxy:
    """A directory that is watched, as Kubernetes mounts it, and the policies that were applied."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metrics = Metrics()
        self.applied: list[Policy] = []
        self.swap("0", {"a.yaml": FIRST})
        (folder / "a.yaml").symlink_to("..data/a.yaml")
        self.reloader = PolicyReloader(folder, self.applied.append, self.metrics, run_in_thread=inline)

    def swap(self, name: str, files: dict[str, bytes]) -> None:
        """As kubelet does: a new directory, then the link to it, in one step."""
        write(self.folder / f"..{name}", files)
        (self.folder / "..next").symlink_to(f"..{name}")
        (self.folder / "..next").rename(self.folder / "..data")

    @property
    def is_current(self) -> float | None:
        return self.metrics.registry.get_sample_value("epochgate_policy_is_current")


async def test_a_swapped_link_and_a_new_file_are_noticed_and_a_bad_file_keeps_the_policy(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    proxy = Proxy(tmp_path)
    nursery.start_soon(watch, proxy.reloader)
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert proxy.applied == []
    proxy.swap("1", {"a.yaml": LAST})
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert [policy.rule_for("g").mode for policy in proxy.applied] == [Mode.REJECT]
    write(tmp_path, {"0.yaml": b"rules: ["})
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert (len(proxy.applied), proxy.is_current) == (1, 0)
    write(tmp_path, {"0.yaml": FIRST})
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert (len(proxy.applied), proxy.is_current) == (2, 1)
    assert proxy.applied[-1].rules[0] == Rule(group="payments", mode=Mode.TRANSLATE)
