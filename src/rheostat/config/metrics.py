"""Where our own metrics are served."""

from __future__ import annotations

import ipaddress
import re

from pydantic import field_validator

from rheostat.config.fields import FrozenModel, documented, reject
from rheostat.errors import Fault

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

    @field_validator("host")
    @classmethod
    def _host_is_an_address(cls, given: str) -> str:
        """An address or a name alone: no scheme, no port, no path."""
        if not _is_host(given):
            rest = given.split("://")[-1].split("/")[0]
            port = re.fullmatch(r"\[?(.+?)\]?:(\d+)", rest)
            meant = "" if port is None else f": say host: {port[1]} and port: {port[2]}"
            message = f"this is no address alone{meant}"
            raise reject([Fault("", given, "an address or a name, without http:// and without a port", message)])
        return given


def _is_host(text: str) -> bool:
    """Whether this can be an address to listen on.

    >>> _is_host("0.0.0.0"), _is_host("::1"), _is_host("driver-1.local"), _is_host("localhost:9090")
    (True, True, True, False)
    """
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?", text) is not None
    return True
