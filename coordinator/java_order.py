"""Reproduces the iteration order of Java's hash tables.

Kafka's assignors iterate over hash maps of members and topics, so Java's hash codes decide which member gets the odd
partition. The embedded coordinator iterates in the same order and so assigns the same partitions. Two kinds of table
matter: ``java.util.HashMap`` and Kafka's own ``TimelineHashMap``. In both, elements that share a slot keep their
insertion order (the timeline's iterator returns them backwards), except that a HashMap puts what is inserted by
``compute`` or ``computeIfAbsent`` at the head of its slot.

Not reproduced: a HashMap slot of eight and more elements becomes a tree, which may change the order inside that slot.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

T = TypeVar("T")

_DEFAULT_CAPACITY = 16
_LOAD_FACTOR = 0.75
_TIMELINE_MIN_CAPACITY = 2
_FIBONACCI = -7046029254386353131
_MASK_31 = 0x7FFFFFFF
_MASK_32 = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF


@lru_cache(maxsize=65536)
def text_hash(text: str) -> int:
    """Return ``String.hashCode`` as an unsigned 32-bit number."""
    result = 0
    units = text.encode("utf-16-be")
    for position in range(0, len(units), 2):
        result = (31 * result + (units[position] << 8 | units[position + 1])) & _MASK_32
    return result


@lru_cache(maxsize=65536)
def uuid_hash(uuid: bytes) -> int:
    """Return ``Uuid.hashCode`` as an unsigned 32-bit number."""
    xor = int.from_bytes(uuid[:8], "big") ^ int.from_bytes(uuid[8:], "big")
    return (xor >> 32) ^ (xor & _MASK_32)


def absolute(java_hash: int) -> int:
    """Return ``Utils.abs`` of a hash, which is 0 for the smallest int."""
    signed = java_hash - (1 << 32) if java_hash >> 31 else java_hash
    return abs(signed) & _MASK_31


def number_hash(number: int) -> int:
    """Return ``Integer.hashCode``."""
    return number & _MASK_32


def partition_hash(partition: tuple[bytes, int]) -> int:
    """Return ``TopicIdPartition.hashCode`` of a topic id and a number: a Java record, hashed as OpenJDK does it."""
    topic_id, number = partition
    return (31 * uuid_hash(topic_id) + number) & _MASK_32


def uuid_sort_key(uuid: bytes) -> tuple[int, int]:
    """Return a key that sorts UUIDs as ``Uuid.compareTo`` does: as two signed numbers."""
    return int.from_bytes(uuid[:8], "big", signed=True), int.from_bytes(uuid[8:], "big", signed=True)


def grown_capacity(count: int) -> int:
    """Return the capacity of a HashMap that was created empty and got ``count`` elements."""
    capacity = _DEFAULT_CAPACITY
    while count > capacity * _LOAD_FACTOR:
        capacity *= 2
    return capacity


def copied_capacity(count: int) -> int:
    """Return the capacity of a HashSet that was created from a collection of ``count`` elements."""
    return _power_of_two(max(int(count / _LOAD_FACTOR) + 1, _DEFAULT_CAPACITY))


def map_copy_capacity(count: int) -> int:
    """Return the capacity of a HashMap that was created from a map of ``count`` elements."""
    return _power_of_two(int(count / _LOAD_FACTOR + 1)) if count else _DEFAULT_CAPACITY


def expected_capacity(count: int) -> int:
    """Return the capacity of a HashMap or HashSet that an assignor creates for ``count`` elements (AssignorHelpers)."""
    return _power_of_two(int((count + 1) / _LOAD_FACTOR + 1))


class HashTable(Generic[T]):
    """The elements of a HashSet, or the keys of a HashMap, that changes while in use; iterates in Java's order."""

    def __init__(self, hash_of: Callable[[T], int], capacity: int = _DEFAULT_CAPACITY) -> None:
        self._hash_of = hash_of
        self._slots: list[list[T]] = [[] for _ in range(capacity)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return iter([element for slot in self._slots for element in slot])

    def __contains__(self, element: T) -> bool:
        return element in self._slot(element)

    def add(self, element: T) -> None:
        """Add the element as ``put`` does: behind the others of its slot."""
        if element in self:
            return
        self._slot(element).append(element)
        self._count += 1
        if self._count > len(self._slots) * _LOAD_FACTOR:
            self._grow()

    def compute(self, element: T) -> None:
        """Add the element as ``computeIfAbsent`` does: before the others of its slot; a full table grows first."""
        if self._count > len(self._slots) * _LOAD_FACTOR:
            self._grow()
        if element not in self:
            self._slot(element).insert(0, element)
            self._count += 1

    def remove(self, element: T) -> None:
        """Remove the element. Raises ValueError if it is not there."""
        self._slot(element).remove(element)
        self._count -= 1

    def _slot(self, element: T) -> list[T]:
        code = self._hash_of(element)
        return self._slots[(code ^ code >> 16) & (len(self._slots) - 1)]

    def _grow(self) -> None:
        elements = list(self)
        self._slots = [[] for _ in range(2 * len(self._slots))]
        for element in elements:
            self._slot(element).append(element)


def hash_order(elements: Iterable[T], hash_of: Callable[[T], int], capacity: int | None = None) -> list[T]:
    """Return the elements, given in insertion order, in the iteration order of a HashMap of this capacity.

    Without ``capacity`` the map was created empty and has grown.
    """
    listed = list(elements)
    mask = (capacity or grown_capacity(len(listed))) - 1

    def slot(element: T) -> int:
        code = hash_of(element)
        return (code ^ code >> 16) & mask

    return sorted(listed, key=slot)


def text_order(elements: Iterable[str]) -> list[str]:
    """Return the iteration order of a HashSet of strings that was created from this list."""
    listed = list(elements)
    return hash_order(listed, text_hash, copied_capacity(len(listed)))


def number_order(elements: Sequence[int]) -> list[int]:
    """Return the iteration order of a HashSet of integers that was created from this list."""
    return hash_order(elements, number_hash, copied_capacity(len(elements)))


def timeline_capacity(capacity: int, count: int) -> int:
    """Return the capacity of a TimelineHashMap of this capacity and ``count`` elements after one more put."""
    capacity = max(capacity, _TIMELINE_MIN_CAPACITY)
    return capacity * 2 if (count + 1) * _LOAD_FACTOR > capacity else capacity


def timeline_order(elements: Iterable[T], hash_of: Callable[[T], int], capacity: int) -> list[T]:
    """Return the elements, given in insertion order, in the iteration order of a TimelineHashMap of this capacity."""
    shift = 65 - max(capacity, _TIMELINE_MIN_CAPACITY).bit_length()

    def slot(element: T) -> int:
        code = hash_of(element)
        signed = code - (1 << 32) if code >> 31 else code
        return (signed * _FIBONACCI & _MASK_64) >> shift

    listed = list(elements)
    listed.reverse()
    return sorted(listed, key=slot)


def first_of_most(counts: Iterable[tuple[T, int]]) -> T | None:
    """Return the element with the highest count, the first one among equals; None if there are none."""
    best: tuple[T, int] | None = None
    for element, count in counts:
        if best is None or count > best[1]:
            best = element, count
    return best[0] if best else None


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
