"""Which way any other call takes."""

from tests.translation.bench import Bench


def test_a_commit_without_member_id_passes_through() -> None:
    bench = Bench()
    request = bench.commit(bench.connect(), "", -1)
    assert bench.forwarded == [request]
