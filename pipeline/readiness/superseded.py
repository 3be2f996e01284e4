"""Finds out in Spark's own code, before Python sees anything, which records newer ones of the same key supersede.

The records are read twice. First keys and offsets alone: Spark's hash aggregation finds the highest offset of each key
(compared byte by byte), and sets its bit; 64 offsets share a word. Then everything: a record whose bit is set is the
newest of its key. Of the others only those are kept that are not proved to be commits that can be read, as a broken one
has to be in quarantine, superseded or not.

The words go to every executor while they are few, and are joined by a shuffle if there are more.
"""

from typing import TYPE_CHECKING, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST_WORDS = 1_000_000
"""As many are sent to every executor: about 64 MiB there, for 64 million records at least."""
_WORD_BITS = 6
_PARTITION_AT = 44
_WORD = f"shiftleft(cast(`partition` as bigint), {_PARTITION_AT}) ^ shiftright(`offset`, {_WORD_BITS})"
"""One number, as Spark looks up one faster than two. Beyond 2^50 offsets share words: more is kept, nothing is lost."""
_BIT = f"cast(`offset` & {(1 << _WORD_BITS) - 1} as int)"


class Newest(NamedTuple):
    """What is known about the newest record of each key."""

    words: "DataFrame"
    number: int
    """Of words."""
    keys: int
    """Of keys, in each partition."""
    offsets: int
    """Of newest records; fewer than keys if two records of a partition have the same offset."""


def newest_offsets(records: "DataFrame") -> Newest:
    """Find the newest offset of each key of ``records``. The words are kept on disk: unpersist them in the end."""
    by_key = records.groupBy("partition", "key").agg(F.max("offset").alias("offset"))
    words = (
        by_key.select(F.expr(_WORD).alias("word"), F.expr(f"shiftleft(1L, {_BIT})").alias("bit"))
        .groupBy("word")
        .agg(F.bit_or("bit").alias("bits"), F.count("*").alias("keys"))
        .persist(StorageLevel.DISK_ONLY)
    )
    counts = words.agg(F.count("*"), F.sum("keys"), F.sum(F.bit_count("bits"))).collect()[0]
    return Newest(words, *(count or 0 for count in counts))


def dropped(records: "DataFrame", newest: Newest, most_words: int = MOST_WORDS) -> "DataFrame":
    """Return the newest record of each key and all that may be unreadable, with the column ``newest``."""
    words = newest.words.select("word", "bits")
    if newest.number <= most_words:
        words = F.broadcast(words)
    joined = records.withColumn("word", F.expr(_WORD)).join(words, "word", "left")
    is_newest = F.coalesce(F.expr(f"(shiftright(`bits`, {_BIT}) & 1L) = 1L"), F.lit(False))  # noqa: FBT003 - a literal of Spark's
    marked = joined.select(*records.columns, is_newest.alias("newest"))
    return marked.where(F.col("newest") | ~readable_commit())


def one_of_each(left: "DataFrame", newest: Newest) -> "DataFrame":
    """Return the newest record of each key, of what :func:`dropped` has left.

    Those that are marked are these already, but for records that came twice, as in two captures in one folder. Raises
    PipelineError if there are fewer than there were.
    """
    marked = left.where("newest")
    found = marked.count()
    if found < newest.offsets:
        raise PipelineError(
            f"{newest.offsets - found} of the newest records are gone: brokers deleted them while the topic was read. "
            "Run it again, or on what `epochgate capture` writes"
        )
    if found == newest.keys == newest.offsets:
        return marked
    rest = [name for name in marked.columns if name not in ("partition", "key")]
    return (
        marked.groupBy("partition", "key")
        .agg(F.max_by(F.struct(*rest), "offset").alias("one"))
        .select("partition", "key", "one.*")
    )


def readable_commit() -> "Column":
    """Whether a record is proved to be an offset commit, or its tombstone, that can be read; never null.

    As in :mod:`commits`, but texts may be of any characters, and must be shorter than 128 bytes.
    """
    proved = f"{_key()} AND (value IS NULL OR {_value()})"
    return F.coalesce(F.expr(proved), F.lit(False))  # noqa: FBT003 - a literal of Spark's


def _key() -> str:
    group = _small("key", "4")
    topic = _small("key", f"6 + {group}")
    # All between the type and the partition at once: the first byte of both lengths is 0, so no character goes across.
    return (
        "substring(key, 1, 2) IN (X'0000', X'0001') AND substring(key, 3, 1) = X'00' "
        f"AND substring(key, 5 + {group}, 1) = X'00' AND octet_length(key) = 10 + {group} + {topic} "
        f"AND {_is_text('key', '3', 'octet_length(key) - 6')}"
    )


def _value() -> str:
    cases = [
        f"WHEN {_version(version)} THEN {_fixed(at, size)}"
        for version, at, size in ((3, 16, 24), (1, 12, 28), (0, 12, 20), (2, 12, 20))
    ]
    return f"CASE {' '.join(cases)} WHEN {_version(4)} THEN {_flexible()} ELSE false END"


def _version(number: int) -> str:
    return f"substring(value, 1, 2) = X'{number:04x}'"


def _fixed(length_at: int, size: int) -> str:
    """Whether a value is whole. The lower byte of its metadata's length is at this place, from 1."""
    length = _small("value", str(length_at))
    return (
        f"substring(value, {length_at - 1}, 1) = X'00' AND octet_length(value) = {size} + {length} "
        f"AND {_is_text('value', str(length_at + 1), length)}"
    )


def _flexible() -> str:
    """Whether a value of version 4 has short metadata, and no tagged field but a topic id."""
    one_more = _small("value", "15")
    tags = f"23 + {one_more}"
    return (
        f"{one_more} BETWEEN 1 AND 127 AND {_is_text('value', '16', f'{one_more} - 1')} "
        f"AND ((octet_length(value) = {tags} AND substring(value, {tags}, 1) = X'00') "
        f"OR (octet_length(value) = 18 + {tags} AND substring(value, {tags}, 3) = X'010010'))"
    )


def _small(of: str, at: str) -> str:
    """Return the number of one byte below 128; of others, and none, one that no length equals."""
    return f"ascii(cast(substring({of}, {at}, 1) AS string))"


def _is_text(of: str, at: str, size: str) -> str:
    return f"is_valid_utf8(cast(substring({of}, {at}, {size}) AS string))"
