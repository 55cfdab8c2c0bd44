"""Our own Prometheus metrics. They read the journal, never the loop: what is not recorded is not told.

``hearing`` keeps the last record, ``figures`` says what is known of it, ``exposition`` serves that; only the last one
needs prometheus_client.
"""

from rheostat.telemetry.figures import Series, series
from rheostat.telemetry.hearing import Heard, Hearing, OverheardJournal
from rheostat.telemetry.serving import Served, serve

__all__ = ["Heard", "Hearing", "OverheardJournal", "Series", "Served", "series", "serve"]
