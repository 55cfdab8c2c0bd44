"""Where our own metrics are served."""

from __future__ import annotations

from rheostat.config.fields import FrozenModel, documented

__all__ = ["MetricsSettings"]


class MetricsSettings(FrozenModel):
    """Our own metrics, for Prometheus to scrape."""

    port: int | None = documented(
        "Port on which the driver serves its metrics, at `/metrics`; null: it serves none. Needs the extra `metrics`.",
        "a port is opened only where somebody wants it",
        default=None,
        ge=1,
        le=65_535,
    )
    host: str = documented(
        "Address that it listens on; `0.0.0.0` for every one. Whoever reaches it can read the metrics.",
        "loopback: nobody else sees how your job is doing unless you say so",
        default="127.0.0.1",
        min_length=1,
    )
