"""Samples that a policy learns from, beyond those that it keeps in its state: in Parquet files, and in memory."""

from __future__ import annotations

from rheostat.archive.memory import MemoryArchive
from rheostat.archive.parquet import ParquetArchive

__all__ = ["MemoryArchive", "ParquetArchive"]
