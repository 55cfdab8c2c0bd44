"""What the Spark master says of its Workers: the authority on which of them have executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rheostat.errors import UnavailableError
from rheostat.lab.daemons import ask_daemon

__all__ = ["ALIVE", "DECOMMISSIONED", "Master", "MasterView", "Standing", "parse_master"]

ALIVE, DECOMMISSIONED = "ALIVE", "DECOMMISSIONED"


@dataclass(frozen=True, slots=True)
class Standing:
    """How one Worker stands with the master.

    Attributes:
        state: the master's word: ``ALIVE``, ``DECOMMISSIONED``, ``DEAD``, ``UNKNOWN``.
        used: whether executors or drivers have been placed on it.
        web: address of its web page, ``host:port``.
    """

    state: str
    used: bool
    host: str
    web: str


@dataclass(frozen=True, slots=True)
class MasterView:
    """The master's word at one time: its URL, and its Workers by their names."""

    url: str
    workers: Mapping[str, Standing]


def parse_master(answer: Any) -> MasterView:
    """What ``GET /json/`` of a master says.

    Raises:
        UnavailableError: it is not what a master that leads says.
    """
    try:
        if answer["status"] != ALIVE:
            message = f"the master does not lead: it is {answer['status']}"
            raise UnavailableError(message)
        return MasterView(str(answer["url"]), {str(one["id"]): _standing(one) for one in answer["workers"]})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"this is not what a Spark master says of itself: {error!r}"
        raise UnavailableError(message) from error


def _standing(one: Mapping[str, Any]) -> Standing:
    used = int(one["coresused"]) > 0 or int(one["memoryused"]) > 0
    return Standing(str(one["state"]), used, str(one["host"]), str(one["webuiaddress"]).rpartition("//")[2])


class Master:
    """A master behind its web page."""

    def __init__(self, web_url: str) -> None:
        self.web_url = web_url

    def ask(self) -> MasterView:
        """Its word now.

        Raises:
            UnavailableError: it does not answer, or does not lead.
        """
        return parse_master(ask_daemon(self.web_url))

    def executors_on(self, web: str) -> int | None:
        """Executors that run on a Worker, by its own word; None: it does not answer.

        The master itself forgets those of a decommissioned one.
        """
        try:
            return len(ask_daemon(f"http://{web}")["executors"])
        except (UnavailableError, KeyError, TypeError):
            return None
