"""Arrival rates by topic, where a query reads several."""

from tests.analyze.test_offsets import SETTINGS, look, part, run

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisState
from rheostat.journal.records import assessment_from_json, assessment_to_json
from rheostat.model import PartitionOffsets


def view(latest: int, number: int = 0) -> PartitionOffsets:
    return PartitionOffsets("views", number, latest, latest, latest)


def test_one_topic_has_no_rates_of_its_own():
    seen = run(look(0.0, part(0, 0, 0)), look(10.0, part(100, 100, 100)))
    assert (seen.arrival_rate, seen.arrival_rates) == (10.0, ())


def test_two_topics_in_one_query():
    looks = [look(10.0 * n, part(100 * n, 0, 0), view(300 * n), view(200 * n, 1)) for n in range(3)]
    state, rates = AnalysisState(), []
    for each in looks:
        seen, state = analyze(each, state, SETTINGS)
        rates.append(seen.arrival_rates)
    assert rates == [(), (("clicks", 10.0), ("views", 50.0)), (("clicks", 10.0), ("views", 50.0))]


def test_a_partition_that_is_away_leaves_all_rates_unknown():
    seen = run(look(0.0, part(0, 0, 0), view(0), view(0, 1)), look(10.0, part(100, 0, 0), view(0)))
    assert (seen.arrival_rate, seen.arrival_rates) == (None, ())


def test_they_go_through_the_journal():
    seen = run(look(0.0, part(0, 0, 0), view(0)), look(10.0, part(100, 0, 0), view(25)))
    assert seen.arrival_rates == (("clicks", 10.0), ("views", 2.5))
    back = assessment_from_json(assessment_to_json(seen, 10.0), 10.0)
    assert back.arrival_rates == seen.arrival_rates
