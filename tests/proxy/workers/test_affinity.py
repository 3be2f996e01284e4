"""Each client, which is an address and a client id, has one worker."""

from collections import Counter

from proxy.workers.affinity import worker_of


def test_an_address_has_one_worker_and_all_workers_have_addresses():
    hosts = [f"10.{n // 250}.{n % 250}.7" for n in range(3000)]
    counts = Counter(worker_of(host, 4) for host in hosts)
    assert set(counts) == {0, 1, 2, 3}
    assert min(counts.values()) > 600
    moved = [host for host in hosts if worker_of(host, 4) != worker_of(host, 5)]
    assert all(worker_of(host, 5) == 4 for host in moved), "only to the worker that is new"


def test_clients_of_one_address_are_spread_by_their_client_ids():
    counts = Counter(worker_of("10.0.0.1", 2, f"payments-{n}") for n in range(1000))
    assert min(counts[0], counts[1]) > 400
