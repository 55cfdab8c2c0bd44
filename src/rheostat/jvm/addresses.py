"""Addresses as Spark writes them."""

from __future__ import annotations

__all__ = ["host_of"]


def host_of(address: str) -> str:
    """The host of ``host:port``, or of a host alone.

    An executor that has just registered has no port yet: Spark knows it only when its block manager is there.

    >>> [host_of(each) for each in ("10.1.2.3:38497", "10.1.2.3", "[::1]:80", "[::1]")]
    ['10.1.2.3', '10.1.2.3', '[::1]', '[::1]']
    """
    host, _, port = address.rpartition(":")
    return host if port.isdecimal() else address
