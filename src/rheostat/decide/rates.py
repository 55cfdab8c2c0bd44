"""Records processed in a second in which a batch runs: of the last batch alone, and over the rate window."""

from __future__ import annotations

from rheostat.model import Assessment


def last_batch_s(assessment: Assessment) -> float | None:
    return assessment.batch_s if assessment.last_batch_s is None else assessment.last_batch_s


def batch_rate(assessment: Assessment) -> float | None:
    """Records of the last batch ÷ its own duration; None: unknown, as of several queries."""
    records, batch_s = assessment.last_batch_records, assessment.last_batch_s
    return None if records is None or not batch_s else records / batch_s


def window_rate(assessment: Assessment) -> float | None:
    """Records processed over the window ÷ the share of it in which batches ran; None: unknown.

    Where that share is not told, the last batch ÷ max(trigger, batch) stands for it, which misleads while either
    changes, and where the window spans idle time.

    >>> window_rate(Assessment(at=0.0, processed_rate=600.0, running_share=0.2, batch_s=4.0, trigger_s=10.0))
    3000.0
    >>> window_rate(Assessment(at=0.0, processed_rate=600.0, batch_s=4.0, trigger_s=10.0))
    1500.0
    """
    processed, share, batch_s = assessment.processed_rate, assessment.running_share, last_batch_s(assessment)
    if processed is None or not batch_s:
        return None
    return processed / share if share else processed * max(assessment.trigger_s or 0.0, batch_s) / batch_s


def busy_rate(assessment: Assessment) -> float | None:
    """Records processed in a second in which a batch runs, of the last batch, else over the window; None: unknown.

    Without input the last batch is of long ago, and maybe of another number of executors: None.

    >>> busy_rate(Assessment(at=0.0, last_batch_records=6000, last_batch_s=4.0, processed_rate=9.0))
    1500.0
    """
    if assessment.idle:
        return None
    rate = batch_rate(assessment)
    return (window_rate(assessment) or None) if rate is None else rate
