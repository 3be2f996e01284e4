"""The coordinator's log: its records in record batches, in memory or in a file."""

from coordinator.log.batches import MemoryLog, RecordLog, read_batches
from coordinator.log.file import FileLog

__all__ = ["FileLog", "MemoryLog", "RecordLog", "read_batches"]
