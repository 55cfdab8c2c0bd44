"""How node servers are called, in settings and on command lines."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

__all__ = ["ELSEWHERE", "is_node_address", "is_node_name", "named_address"]

ELSEWHERE = "elsewhere"
"""Where executors are whose node is not known. No node can be called so."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")


def is_node_name(text: str) -> bool:
    """Whether this can be the name of a node: letters, digits, - and _, at most 41, and not ``ELSEWHERE``.

    >>> is_node_name("rack-1"), is_node_name("rack 1"), is_node_name("elsewhere")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None and text != ELSEWHERE


def is_node_address(text: str) -> bool:
    """Whether this is the address of a node server, without a path, a query or a password.

    >>> is_node_address("http://10.0.0.1:8091"), is_node_address("10.0.0.1:8091")
    (True, False)
    """
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return known and not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)


def named_address(text: str) -> tuple[str | None, str]:
    """The name of a node, None if it has none, and its address.

    >>> named_address("near=http://10.0.0.1:8091/"), named_address("http://10.0.0.1:8091")
    (('near', 'http://10.0.0.1:8091'), (None, 'http://10.0.0.1:8091'))
    """
    name, sign, address = text.rpartition("=")
    return (name if sign else None), address.rstrip("/")
