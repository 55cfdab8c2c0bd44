"""What the application says of its executors, for the cluster layer: how many there are, and on which Workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from rheostat.errors import ActuationError, RheostatError
from rheostat.jvm.addresses import host_of

__all__ = ["SparkJob", "page_of"]


class _Levers(Protocol):
    def registered(self) -> tuple[str, ...]: ...


class _Driver(Protocol):
    def executors(self) -> list[dict[str, Any]]: ...


def page_of(executor: Mapping[str, Any]) -> str:
    """The web page (``host:port``) of the Worker that an executor is on, from the address of its log.

    Args:
        executor: as Spark's REST interface describes it. Without a log its host alone is known.

    >>> page_of({"hostPort": "127.0.0.2:41", "executorLogs": {"stdout": "http://127.0.0.2:8081/logPage/?logType=stdout"}})
    '127.0.0.2:8081'
    >>> page_of({"hostPort": "127.0.0.2:41", "executorLogs": {}}), page_of({"hostPort": "127.0.0.2"})
    ('127.0.0.2', '127.0.0.2')
    """
    page = urlsplit(str(executor.get("executorLogs", {}).get("stdout", ""))).netloc
    return page or host_of(str(executor["hostPort"]))


class SparkJob:
    """The running application (:class:`~rheostat.execute.workers.JobView`).

    Args:
        levers: :class:`~rheostat.jvm.levers.SparkLevers`.
        driver: :class:`~rheostat.jvm.reading.DriverJvm`.
    """

    def __init__(self, levers: _Levers, driver: _Driver) -> None:
        self._levers, self._driver = levers, driver

    def registered(self) -> tuple[str, ...]:
        """The executors that get tasks."""
        return self._levers.registered()

    def worker_pages(self) -> tuple[str, ...]:
        """The Workers that they are on, each by its web page.

        Raises:
            ActuationError: the driver does not tell.
        """
        return tuple(sorted({page for _, page in self._pages()}))

    def placed(self) -> dict[str, str]:
        """The executors by their ids, each with the web page of its Worker.

        Raises:
            ActuationError: the driver does not tell.
        """
        return dict(self._pages())

    def _pages(self) -> list[tuple[str, str]]:
        try:
            return [(str(executor["id"]), page_of(executor)) for executor in self._driver.executors()]
        except (RheostatError, KeyError, ValueError) as error:
            message = f"which Workers are used cannot be read: {error}"
            raise ActuationError(message) from error
