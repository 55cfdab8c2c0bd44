"""What executors have done, counted for all of a range together."""

from hypothesis import given
from hypothesis import strategies as st

from rheostat.sim.tally import Equal, Tally

EVENTS = st.one_of(
    st.tuples(st.just("note"), st.integers(1, 30), st.sampled_from([0.1, 1 / 3, 0.7, 2.9])),
    st.tuples(st.just("add"), st.integers(0, 12), st.sampled_from([0.1, 1 / 3])),
    st.tuples(st.just("join"), st.just(0), st.just(0.0)),
    st.tuples(st.just("leave"), st.integers(0, 12), st.just(0.0)),
    st.tuples(st.just("look"), st.integers(0, 9), st.sampled_from([0.1, 0.7])),
)


def happens(tally, what, number, seconds, *, alike):
    """One event; after executors have come or gone, waves are on one slot of each of them."""
    executors = len(tally.counted()[0]) if what in ("add", "join", "leave") else 0
    match what:
        case "note":
            tally.note(Equal(number, seconds))
        case "add":
            tally.add(number % executors, number, seconds)
        case "join" | "leave":
            if what == "join":
                tally.join()
            elif executors > 1:
                tally.leave(number % executors)
            tally.settle(tuple(range(len(tally.counted()[0]))))
            tally.one_each = alike


def looks(tally, finished, busy_s, passed, seconds):
    """What is told beside what has been counted slot by slot, of seven tasks that have begun, and of none."""
    assert tally.told([]) == (tuple(finished), tuple(busy_s), (0,) * len(finished))
    each = [7 // len(finished) + (place < 7 % len(finished)) for place in range(len(finished))]
    done = [min(passed, count) for count in each]
    assert tally.told([(passed, 7, seconds)]) == (
        tuple(there + more for there, more in zip(finished, done, strict=True)),
        tuple(there + more * seconds for there, more in zip(busy_s, done, strict=True)),
        tuple(int(passed < count) for count in each),
    )


@given(st.integers(1, 13), st.lists(EVENTS, max_size=25))
def test_executors_are_counted_together_as_if_each_slot_had_been_counted_by_itself(executors, events):
    """To the last bit, whatever happens between: tasks of one executor, others that come or go, looks."""
    together, by_slot = Tally(executors), Tally(executors)
    for tally in (together, by_slot):
        tally.settle(tuple(range(executors)))
    by_slot.one_each = False
    for event in events:
        if event[0] == "look":
            looks(together, *by_slot.counted(), *event[1:])
        else:
            happens(together, *event, alike=True)
            happens(by_slot, *event, alike=False)
    assert together.counted() == by_slot.counted()
