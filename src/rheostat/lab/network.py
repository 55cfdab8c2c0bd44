"""Ports of this machine."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing

from rheostat.errors import Fault, InputError

__all__ = ["HOST", "answers", "free_ports", "is_free", "port_faults", "port_was_taken", "require_free"]

HOST = "127.0.0.1"
"""Everything of a lab is bound here."""

_TAKEN = ("Address already in use", "BindException")


def free_ports(count: int) -> list[int]:
    """That many different ports which nobody listens on now. Another program may be quicker: be ready to ask again."""
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def is_free(port: int) -> bool:
    """Whether we could listen on the port now."""
    with closing(socket.socket()) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    """Whether somebody accepts a connection on the port."""
    with closing(socket.socket()) as one:
        one.settimeout(1.0)
        return one.connect_ex((HOST, port)) == 0


def port_faults(port: int, field: str) -> list[Fault]:
    """What is wrong with a port, wherever it is used."""
    if 1024 <= port <= 65535:
        return []
    return [Fault(field, str(port), "1024 to 65535", "this is not a port that a program may take")]


def require_free(port: int, field: str) -> None:
    """Check a port that was asked for.

    Raises:
        InputError: it is no port that a user may take, or in use.
    """
    if faults := port_faults(port, field):
        raise InputError(faults)
    if not is_free(port):
        message = f"port {port} is in use: stop the program that listens there, or leave the choice to us"
        raise InputError([Fault(field, str(port), "a free port", message)])


def port_was_taken(log_tail: str) -> bool:
    """Whether a Java process ended because its port was taken.

    >>> port_was_taken("java.net.BindException: Address already in use")
    True
    """
    return any(mark in log_tail for mark in _TAKEN)
