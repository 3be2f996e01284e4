"""Each client address has one worker."""

from collections import Counter

from proxy.workers.affinity import worker_of


def test_an_address_has_one_worker_and_all_workers_have_addresses():
    hosts = [f"10.{n // 250}.{n % 250}.7" for n in range(3000)]
    counts = Counter(worker_of(host, 4) for host in hosts)
    assert set(counts) == {0, 1, 2, 3}
    assert min(counts.values()) > 600
    moved = [host for host in hosts if worker_of(host, 4) != worker_of(host, 5)]
    assert all(worker_of(host, 5) == 4 for host in moved), "only to the worker that is new"
