"""The largest numbers, strings and arrays of Kafka's protocol."""

MAX_INT = 0x7FFFFFFF
"""Java's largest int."""
MAX_LENGTH = MAX_INT
"""Lengths are Java ints."""
MAX_TEXT_BYTES = 0x7FFF
"""Kafka refuses longer strings in all versions."""
