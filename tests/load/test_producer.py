"""The schedule and the open-loop producer, on a clock that is moved by hand."""

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.load.memory_sink import MemorySink

from rheostat.load.curves import constant, staircase
from rheostat.load.payload import IdChecksum, Payloads, PayloadSpec
from rheostat.load.producer import OpenLoopProducer, ProducerSettings, RunClock, Schedule
from rheostat.load.shapes import parse_shape

PAYLOADS = Payloads(PayloadSpec(users=10, ips=10))


class ManualClock:
    """Waits take as long as asked, plus a delay from a list (used in turn, over and over)."""

    def __init__(self, delays=(0.0,), stop_at=None):
        self.time = 1_000.0
        self._delays, self._turn, self._stop_at = delays, 0, stop_at

    def now(self):
        return self.time

    def wait(self, seconds):
        self.time += seconds + self._delays[self._turn % len(self._delays)]
        self._turn += 1
        return self._stop_at is not None and self.time >= self._stop_at


def run(curve, clock=None, sink=None, settings=None, **options):
    sink = sink or MemorySink()
    return OpenLoopProducer(sink, PAYLOADS, clock or ManualClock(), settings).run(curve, **options), sink


@pytest.mark.parametrize(
    ("text", "record", "due_at"),
    [
        ("constant:100@10", 0, 0.01),
        ("constant:100@10", 999, 10.0),
        ("ramp:0..100@10", 124, 5.0),
        ("ramp:0..100@10", 499, 10.0),
        ("constant:10@1+constant:0@5+constant:10@1", 9, 1.0),
        ("constant:10@1+constant:0@5+constant:10@1", 10, 6.1),
        ("constant:0.1@30", 2, 30.0),
    ],
)
def test_a_record_is_due_when_the_integral_reaches_it(text, record, due_at):
    assert Schedule(parse_shape(text)).due_at(record) == pytest.approx(due_at, abs=1e-4)


def test_rounding_costs_no_record():
    assert Schedule(constant(0.1, 30)).total == 3


def test_a_record_beyond_the_end_is_never_due():
    with pytest.raises(IndexError):
        Schedule(constant(10, 1)).due_at(10)


@given(
    st.floats(0, 400),
    st.floats(0, 400),
    st.floats(0.1, 8),
    st.lists(st.floats(0, 1.5), min_size=1, max_size=10),
    st.one_of(st.none(), st.integers(50, 200)),
)
def test_exactly_the_integral_is_sent_whatever_the_jitter(low, high, seconds, delays, room):
    curve = parse_shape(f"ramp:{low:f}..{high:f}@{seconds:f}")
    result, sink = run(curve, ManualClock(delays), MemorySink(room=room))
    expected = int(curve.cumulative(curve.duration) + 1e-6)
    assert (result.records, result.scheduled, result.in_doubt) == (expected, expected, 0)
    assert [json.loads(value)["id"] for value in sink.stored] == list(range(expected))
    assert result.checksum == IdChecksum().add_many(range(expected))
    assert not result.stopped


def test_a_producer_in_time_is_late_by_a_tick_at_most():
    result, _ = run(constant(500, 4))
    assert result.lateness.max_s == pytest.approx(0.018, abs=0.0011)
    assert result.lateness.p95_s <= 0.02
    assert result.lateness.behind_at_end_s == 0
    assert result.seconds == pytest.approx(4.0)


def test_a_producer_that_was_held_up_catches_up_and_says_how_late_it_was():
    clock = ManualClock([0.0] * 49 + [2.0] + [0.0] * 1000)
    result, sink = run(constant(100, 10), clock)
    assert result.records == 1000
    assert result.lateness.max_s == pytest.approx(2.01, abs=0.011)
    assert 1.4 < result.lateness.p95_s < 1.6
    assert result.lateness.behind_at_end_s == 0
    stamps = [json.loads(value)["timestamp"] for value in sink.stored]
    assert sum(stamp == 1003.0 for stamp in stamps) == 202


def test_a_sink_without_room_leaves_the_producer_behind():
    result, _ = run(constant(1000, 2), sink=MemorySink(room=10), settings=ProducerSettings(tick_s=0.02))
    assert result.records == 2000
    assert result.lateness.behind_at_end_s == pytest.approx(1.0, abs=0.05)
    assert result.seconds == pytest.approx(4.0, abs=0.1)


def test_the_timestamp_is_the_time_of_production():
    _, sink = run(constant(10, 1), ManualClock([0.7]))
    assert {json.loads(value)["timestamp"] for value in sink.stored} == {1000.72, 1001.44}


def test_the_curve_begins_at_the_go():
    clock = ManualClock()
    result, sink = run(constant(100, 2), clock, start=lambda: clock.time >= 1005.0, warmup_rate=20)
    assert (result.warmup_records, result.records, result.scheduled) == (100, 300, 200)
    assert result.began_at == 1000.0
    assert result.go_at == pytest.approx(1005.0, abs=0.03)
    assert [json.loads(value)["id"] for value in sink.stored] == list(range(300))
    assert result.lateness.max_s < 0.021


def test_an_event_may_say_go():
    go = threading.Event()
    go.set()
    result, _ = run(constant(100, 1), start=go, warmup_rate=50)
    assert (result.warmup_records, result.records) == (0, 100)


def test_a_curve_can_depend_on_the_warm_up():
    begun = []

    def start():
        begun.append(True)
        return len(begun) > 100

    result, _ = run(lambda: constant(len(begun), 1), start=start, warmup_rate=10)
    assert result.scheduled == 101
    assert result.records == result.warmup_records + 101


def test_a_stop_during_the_warm_up_is_reported():
    result, _ = run(constant(100, 1), ManualClock(stop_at=1003.0), start=lambda: False, warmup_rate=10)
    assert result.stopped
    assert result.go_at is None
    assert (result.records, result.warmup_records, result.lateness.max_s) == (29, 29, None)


def test_a_stop_is_reported_exactly():
    result, sink = run(constant(100, 10), ManualClock(stop_at=1003.0))
    assert (result.stopped, result.scheduled, result.records) == (True, 1000, 298)
    assert result.checksum == IdChecksum().add_many(range(298))
    assert result.lateness.behind_at_end_s == pytest.approx(0.0, abs=0.02)
    assert sink.finished


def test_records_that_nobody_acknowledged_are_in_doubt():
    result, _ = run(constant(100, 1), sink=MemorySink(holds=True))
    assert (result.records, result.in_doubt, result.next_id) == (0, 100, 100)
    assert result.checksum == IdChecksum()
    assert not result.whole


def test_a_record_given_up_ends_the_run_and_is_not_counted():
    result, _ = run(constant(100, 10), sink=MemorySink(fails=frozenset({150})))
    assert (result.stopped, result.failed, result.error, result.whole) == (True, 1, "told to fail", False)
    assert result.records == result.next_id - 1
    assert result.checksum == IdChecksum().add_many(i for i in range(result.next_id) if i != 150)


def test_a_load_of_nothing_lasts_its_time():
    result, _ = run(staircase([(3, 0)]))
    assert (result.records, result.seconds) == (0, pytest.approx(3.0))
    assert (result.lateness.max_s, result.lateness.p95_s) == (None, None)


def test_a_broken_sink_is_finished():
    class Broken(MemorySink):
        def send(self, records):
            raise RuntimeError(len(records))

    sink = Broken()
    with pytest.raises(RuntimeError):
        run(constant(100, 1), sink=sink)
    assert sink.finished


def test_the_real_clock_stops_on_request():
    clock = RunClock()
    told = threading.Timer(0.2, clock.stop.set)
    told.start()
    result = OpenLoopProducer(MemorySink(), PAYLOADS, clock).run(constant(1000, 60))
    told.join()
    assert result.stopped
    assert 0.1 < result.seconds < 5
    assert result.records == result.next_id > 0


def test_a_late_producer_sends_batch_after_batch_without_a_pause():
    clock = ManualClock([3.0] + [0.0] * 1000)
    result, _ = run(constant(1000, 4), clock, settings=ProducerSettings(largest_batch=100))
    assert result.records == 4000
    assert result.seconds == pytest.approx(4.0, abs=0.03)
