"""The jars of the pipeline's image are those that were reviewed, byte by byte."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.chart.image import ROOT, context, stage
from tools.maven import MavenError, ensure_dependencies

SUMS = Path("tools/spark_connector/jars.sha256")
GOOD, BAD = b"as reviewed", b"as somebody put it there since"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a pom lies, and a Maven that copies what is in `remote`."""
    (tmp_path / "remote").mkdir()
    (tmp_path / "bin").mkdir()
    maven = tmp_path / "bin" / "mvn"
    maven.write_text(
        "#!/bin/sh\n"
        f'for word; do case "$word" in -Djars.directory=*) cp -r {tmp_path}/remote "${{word#*=}}";; esac; done\n'
    )
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "pom.xml").touch()
    return tmp_path


def sums_of(**jars: bytes) -> str:
    return "".join(f"{hashlib.sha256(content).hexdigest()}  {name}.jar\n" for name, content in jars.items())


@pytest.mark.parametrize(
    ("remote", "is_right"),
    [
        ({"a": GOOD, "b": GOOD}, True),
        ({"a": GOOD, "b": BAD}, False),
        ({"a": GOOD}, False),
        ({"a": GOOD, "b": GOOD, "c": GOOD}, False),
    ],
    ids=["as listed", "another content", "one missing", "one more"],
)
def test_other_jars_than_listed_are_refused(folder: Path, remote: dict[str, bytes], is_right: bool) -> None:
    (folder / "jars.sha256").write_text(sums_of(a=GOOD, b=GOOD))
    for name, content in remote.items():
        (folder / "remote" / f"{name}.jar").write_bytes(content)
    # What tools/ fetches.
    if is_right:
        jars = ensure_dependencies(folder / "pom.xml", folder / "build" / "1", {}, what="jars")
        assert {jar.stem for jar in jars.iterdir()} == remote.keys()
    else:
        with pytest.raises(MavenError, match=r"other files than jars\.sha256 lists"):
            ensure_dependencies(folder / "pom.xml", folder / "build" / "1", {}, what="jars")
        assert not (folder / "build" / "1").exists()
    # What the image's build does behind its `mvn`.
    check = stage("connector")[-1].text.replace("/src", str(folder))
    done = subprocess.run(["/bin/sh", "-c", check], cwd=folder / "remote", check=False, capture_output=True)
    assert (done.returncode == 0) is is_right


def test_the_image_has_the_list_and_it_names_the_versions_of_the_pom() -> None:
    assert SUMS in context()
    names = [line.split()[1] for line in (ROOT / SUMS).read_text().splitlines()]
    pom = (ROOT / SUMS.with_name("pom.xml")).read_text()
    for name in names:
        assert f"<artifactId>{name.rpartition('-')[0]}</artifactId>" in pom
        assert f".version>{name.rpartition('-')[2].removesuffix('.jar')}<" in pom
    assert len(names) == pom.count("<dependency>")
