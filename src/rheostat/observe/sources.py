"""What a query reads, from the options in its plan: :class:`~rheostat.model.SourceInfo`, without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rheostat.model import SourceInfo

__all__ = ["LOG_PROVIDER", "option", "source_info", "without_secrets"]

LOG_PROVIDER = "rheostat_log"

_SECRET_NAME = re.compile(r"password|passwd|jaas|secret|key|token|credential|certificate|auth", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"(password|secret|token)\s*=|://[^/@\s]+:[^/@\s]*@", re.IGNORECASE)
_CAPS = ("maxOffsetsPerTrigger", "maxRecordsPerTrigger", "maxRowsPerTrigger", "rowsPerBatch")
_NAMES = ("subscribe", "subscribePattern", "assign", "path")


def option(options: Mapping[str, str], name: str) -> str | None:
    """An option by its name, which is not case-sensitive.

    >>> option({"PATH": "/data"}, "path")
    '/data'
    """
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those that are, by name or by look, secrets or ways to them.

    >>> without_secrets({"subscribe": "orders", "kafka.sasl.jaas.config": "…", "url": "http://me:pw@host/"})
    {'subscribe': 'orders'}
    """
    return {
        key: value
        for key, value in sorted(options.items())
        if not _SECRET_NAME.search(key) and not _SECRET_VALUE.search(value)
    }


def source_info(provider: str, options: Mapping[str, str], partitions: int | None = None) -> SourceInfo:
    """Describe a source; the number of partitions is known once its offsets have been read."""
    kinds = {LOG_PROVIDER: "log"}
    named = next((value for value in (option(options, name) for name in _NAMES) if value is not None), provider)
    return SourceInfo(
        kind=kinds.get(provider, provider),
        name=named if not _SECRET_VALUE.search(named) else provider,
        partitions=partitions,
        batch_cap=_cap(options),
        options=without_secrets(options),
    )


def _cap(options: Mapping[str, str]) -> int | None:
    given = (option(options, name) for name in _CAPS)
    return next((int(value) for value in given if value is not None and value.strip().isdecimal()), None)
