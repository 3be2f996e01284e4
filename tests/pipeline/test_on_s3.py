"""The pipeline on a real S3 server: the tables in a bucket are those of a local run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.console.exit_codes import ExitCode
from tests.pipeline.on_disk import rows, tables
from tests.pipeline.s3 import S3
from tests.pipeline.several_commands import run
from tests.pipeline.test_file_systems import prepared
from tools.maven import MavenError
from tools.s3_server import built
from tools.spark_s3.jars import ensure_s3

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def jars() -> dict[str, str]:
    try:
        return {"spark.jars": ",".join(map(str, ensure_s3()))}
    except MavenError as reason:
        pytest.skip(f"no jars for S3: {reason}")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    program = built.program()
    if program is None:
        pytest.skip("versitygw is not built: python -m tools.s3_server.built")
    server = S3(program, tmp_path_factory.mktemp("s3"))
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
    server.kill()


def test_the_audit_of_a_bucket_is_that_of_a_folder(s3: S3, jars: dict[str, str], tmp_path: Path) -> None:
    prepared(tmp_path)
    places = (str(tmp_path), s3.put(tmp_path, "short"))
    local, there = run(
        [("audit", "--journal", f"{at}/journal", "--out", f"{at}/audit") for at in places], s3.settings | jars
    )
    assert (local.code, there.code) == (ExitCode.PROBLEM_FOUND, ExitCode.PROBLEM_FOUND), there.output
    assert tables(s3.bucket / "short", "audit") == tables(tmp_path, "audit")


def test_a_difference_would_be_seen(tmp_path: Path) -> None:
    """The comparison itself: rows that differ, and windows of which the newest counts."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as parquet  # noqa: PLC0415

    for batch, count in ((2, 5), (10, 7)):
        folder = tmp_path / "windows" / f"batch={batch}"
        folder.mkdir(parents=True)
        parquet.write_table(pa.table({"group": ["a"], "from_us": [1], "n": [count]}), folder / "p.parquet")
    assert rows(tmp_path / "windows") == ["{'group': 'a', 'from_us': 1, 'n': 7}"]
