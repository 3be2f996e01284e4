"""What is known of a worker of Kafka Connect beside its connectors and tasks."""

import msgspec


class ConnectWorker(msgspec.Struct, frozen=True, gc=False):
    """A worker as its last JoinGroup and the last assignment tell it (KIP-415).

    ``url`` is where its REST API listens, ``config_offset`` how far it had read the topic of configurations (-1 if it
    had read nothing). ``leader`` is the member id of the worker that assigns connectors and tasks, ``leader_url`` its
    REST API; both are empty before the first assignment. ``delay_ms`` is after how many milliseconds the workers join
    again by themselves, 0 if they do not: until then what a lost worker ran is run by nobody
    (``scheduled.rebalance.max.delay.ms``).
    """

    url: str
    config_offset: int = -1
    leader: str = ""
    leader_url: str = ""
    delay_ms: int = 0
