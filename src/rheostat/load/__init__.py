"""Loads: what rate is offered when (curves), when each record is due (schedule), what it says (payload), where it goes.

::

    shape | trace | variation file  ->  RateCurve  ->  Schedule  ->  Producer  ->  Sink (Kafka | log on disk | memory)
                                                       Payloads  ---^

This package imports nothing heavy by itself: numpy, pyarrow and confluent-kafka come with the module that needs them.
"""
