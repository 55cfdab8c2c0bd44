"""Rheostat: an autoscaler for Spark Structured Streaming.

::

    rheostat.attach(spark, objective="lag < 30s", executors=(1, 20))
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "Attachment",
    "__version__",
    "attach",
]


__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for, so that ``import rheostat`` stays light."""
    if name in ("Attachment", "attach"):
        from rheostat import attachment

        return getattr(attachment, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
