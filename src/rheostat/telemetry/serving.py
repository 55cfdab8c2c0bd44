"""Opening the port, with what can be wrong about that as faults."""

from __future__ import annotations

import errno
import importlib.util
import logging
import socket
from typing import Protocol

from rheostat.config import MetricsSettings
from rheostat.errors import Fault, InputError, to_install
from rheostat.telemetry.hearing import Hearing

__all__ = ["Served", "serve"]

_log = logging.getLogger("rheostat")


class Served(Protocol):
    """A port that is being served."""

    def close(self) -> None:
        """Give it free. May be called more than once."""
        ...


def serve(settings: MetricsSettings, hearing: Hearing) -> Served | None:
    """Serve what is heard, in threads of its own; None: nobody wants it.

    Raises:
        InputError: the port or the address cannot be had, or prometheus_client is not installed.
    """
    if settings.port is None:
        return None
    if importlib.util.find_spec("prometheus_client") is None:
        message = f"metrics need prometheus-client; {to_install('metrics')}"
        raise InputError([Fault("metrics.port", str(settings.port), "null without the extra metrics", message)])
    from rheostat.telemetry.exposition import HttpServer

    try:
        served = HttpServer(settings.host, settings.port, hearing)
    except OSError as error:
        raise InputError([_fault(settings.host, settings.port, error)]) from error
    _log.info("metrics are at http://%s:%d/metrics", settings.host, settings.port)
    return served


def _fault(host: str, port: int, error: OSError) -> Fault:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return Fault("metrics.host", host, "an address of this machine", "this machine cannot listen there")
    if error.errno == errno.EADDRINUSE:
        return Fault("metrics.port", str(port), "a port that is free", f"something else listens on {host} there")
    message = f"it cannot be opened: {error.strerror or error}"
    return Fault("metrics.port", str(port), "a port that this user may open", message)
