"""A real Kafka broker and a real Spark cluster on this machine.

::

    with Lab(LabSpec(workers=1, cores=4)) as lab:
        lab.broker.create_topic("clicks", partitions=4)
        lab.broker.bootstrap, lab.cluster.url, lab.cluster.driver_conf()

Names are loaded when first used: the guardian process imports this package and must stay tiny.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rheostat.lab.broker import Broker
    from rheostat.lab.cluster import Cluster
    from rheostat.lab.daemons import WorkerSize
    from rheostat.lab.jars import kafka_connector_jars
    from rheostat.lab.java import Java, find_java
    from rheostat.lab.lab import Lab, LabSpec
    from rheostat.lab.process import Guardian, Part

__all__ = [
    "Broker",
    "Cluster",
    "Guardian",
    "Java",
    "Lab",
    "LabSpec",
    "Part",
    "WorkerSize",
    "find_java",
    "kafka_connector_jars",
]

_HOMES = {
    "Broker": "broker",
    "Cluster": "cluster",
    "Guardian": "process",
    "Java": "java",
    "Lab": "lab",
    "LabSpec": "lab",
    "Part": "process",
    "WorkerSize": "daemons",
    "find_java": "java",
    "kafka_connector_jars": "jars",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
