"""Loads: the offered rate (curves), when each record is due, its content (payload), and where it goes (sinks).

::

    shape | trace | variation file  ->  RateCurve  ->  Schedule  ->  Producer  ->  Sink (Kafka | log on disk)
                                                       Payloads  ---^
"""
