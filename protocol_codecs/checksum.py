"""CRC-32C (Castagnoli), the checksum of record batches."""


def crc32c(content: bytes | memoryview, before: int = 0) -> int:
    """Return the checksum of ``content``, behind bytes whose checksum is ``before``."""
    # Loads importlib.metadata and argparse, which a proxy that reads no records does without.
    from crc32c import crc32c as compute  # noqa: PLC0415

    return compute(content, before)
