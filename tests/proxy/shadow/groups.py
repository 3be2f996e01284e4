"""Random classic groups and runs of their moves: the same ones for the same seed."""

import random
from itertools import cycle, islice

from coordinator import java_order
from coordinator.image import MetadataImage, TopicImage
from coordinator.partitions import Partitions
from coordinator.uuids import SeededUuids, hyphenated
from protocol_codecs import Uuid
from proxy.shadow.group import ClassicGroup, Client

RACKS = ("rack-a", "rack-b", "rack-c")


def random_group(seed: int) -> ClassicGroup:
    """A group with up to 25 members of up to five topics; its assignment is even, uneven or partly missing."""
    rng, uuids = random.Random(seed), SeededUuids(seed)  # noqa: S311  the same ones in every run
    most = rng.choice([2, 7, 40])
    topics = [
        _topic(rng, uuids.next(), f"topic-{number}-{rng.randrange(1000)}", rng.randint(1, most))
        for number in range(rng.randint(1, 5))
    ]
    same = _some(rng, topics) if rng.random() < 0.6 else None
    static = rng.choice([0.0, 0.0, 0.3, 1.0])
    named = rng.choice([0.0, 1.0, 0.7])
    members = [
        Client(
            member_id=f"client-{number}-{hyphenated(uuids.next())}",
            client_id=f"client-{number}",
            instance_id=f"instance-{rng.randrange(10**6)}-{number}" if rng.random() < static else None,
            topics=tuple(sorted(topic.name for topic in same or _some(rng, topics))),
            rack=rng.choice(RACKS) if rng.random() < named else None,
            assigned={},
        )
        for number in range(rng.randint(1, rng.choice([3, 12, 25])))
    ]
    by_id = {one.member_id: one for one in members}
    members = [
        by_id[one] for one in java_order.hash_order(by_id, java_order.text_hash)
    ]  # as brokers describe them
    assigned = _assigned(rng, topics, members)
    return ClassicGroup(
        clients=tuple(
            Client(one.member_id, one.client_id, one.instance_id, one.topics, one.rack, mine)
            for one, mine in zip(members, assigned, strict=True)
        ),
        image=MetadataImage(topics),
        assignor=rng.choice(["uniform", "range"]),
        moves_at_once="user data" if rng.random() < 0.1 else None,
        assignor_is_set=rng.random() < 0.5,
    )


def _topic(rng: random.Random, topic_id: Uuid, name: str, partitions: int) -> TopicImage:
    racks = tuple(tuple(sorted(rng.sample(RACKS, 2))) for _ in range(partitions))
    return TopicImage(topic_id, name, partitions, racks)


def _some(rng: random.Random, topics: list[TopicImage]) -> list[TopicImage]:
    return [topic for topic in topics if rng.random() < 0.7] or topics[:1]


def _assigned(rng: random.Random, topics: list[TopicImage], members: list[Client]) -> list[Partitions]:
    """What a client-side assignor may have made of it: each topic dealt out, in ranges, or at random."""
    way = rng.choice(["deal", "range", "random", "gaps"])
    found: list[dict[Uuid, tuple[int, ...]]] = [{} for _ in members]
    for topic in topics:
        takers = [number for number, one in enumerate(members) if topic.name in one.topics]
        if not takers:
            continue
        if way == "range":
            size = -(-topic.partitions // len(takers))
            owners = [takers[number // size] for number in range(topic.partitions)]
        elif way == "deal":
            owners = list(islice(cycle(takers), topic.partitions))
        else:
            owners = [rng.choice(takers) for _ in range(topic.partitions)]
        for number, owner in enumerate(owners):
            if way != "gaps" or rng.random() < 0.8:
                found[owner][topic.topic_id] = (*found[owner].get(topic.topic_id, ()), number)
    return list(found)
