"""What every Source must keep, whether it is the fake, the driver's or one from outside."""

import math

from rheostat.model import Observation
from rheostat.ports import Source

SECTIONS = {"offsets", "batch", "running", "cluster", "queries"}
LONGEST_LOOK_S = 10.0


def looks(source: Source, at: float) -> Observation:
    """Look once, and check what holds for every observation."""
    seen = source.observe(at)
    assert isinstance(seen, Observation)
    assert seen.at == at
    for gap in seen.gaps:
        assert gap.section in SECTIONS
        assert gap.why.strip()
    if seen.cluster is None:
        assert [gap for gap in seen.gaps if gap.section == "cluster"], "a missing cluster has its gap"
    else:
        timely(seen.cluster.at, at)
    for query in seen.queries:
        about = {gap.section for gap in seen.gaps if gap.query_id == query.query_id}
        if query.failed_because is None:
            assert query.offsets is not None or "offsets" in about, "missing offsets have their gap"
            assert query.batch is not None or "batch" in about, "a missing batch has its gap"
        if query.offsets is not None:
            timely(query.offsets.at, at)
            keys = [(found.topic, found.partition) for found in query.offsets.partitions]
            assert keys == sorted(set(keys)), "partitions are sorted and named once"
            assert query.offsets.exact is (query.offsets.inexact_because is None)
    return seen


def timely(section_at: float, at: float) -> None:
    """A section may be older than the look, and younger by what the look took."""
    assert math.isfinite(section_at)
    assert section_at <= at + LONGEST_LOOK_S


def closes(source: Source) -> None:
    """Closing twice is the same as closing once."""
    source.close()
    source.close()
