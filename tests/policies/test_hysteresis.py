import pytest

from rheostat.policies.proactive import ease, round_half_up

GAINS = (0.9, 0.4)


def decisions(start: int, target: int, count: int) -> list[int]:
    """The numbers of executors, each in force at the next decision."""
    level, number, found = float(start), start, []
    for _ in range(count):
        level = ease(level, target, number, GAINS)
        number = round_half_up(level)
        found.append(number)
    return found


@pytest.mark.parametrize(
    ("start", "target", "expected"),
    [
        pytest.param(6, 1, [4, 3, 2, 2, 1], id="down: 4.0, 2.8, 2.08, 1.65, 1.39"),
        pytest.param(2, 1, [2, 1], id="one down is reached too: 1.6, 1.36"),
        pytest.param(1, 6, [6], id="up at once: 5.5"),
        pytest.param(3, 4, [4], id="one up: 3.9"),
        pytest.param(4, 4, [4, 4], id="where it is wanted it stays"),
    ],
)
def test_the_target_is_reached(start, target, expected):
    assert decisions(start, target, len(expected)) == expected


@pytest.mark.parametrize("start", [1, 2, 3, 7, 20, 100])
@pytest.mark.parametrize("target", [1, 2, 5, 19, 100])
def test_it_always_arrives(start, target):
    assert decisions(start, target, 16)[-1] == target


def test_with_a_whole_number_it_would_stall_one_short():
    """As printed: 6 → 4 → 3 → 2 → 2."""
    number, found = 6, []
    for _ in range(4):
        number = round_half_up(number + 0.4 * (1 - number))
        found.append(number)
    assert found == [4, 3, 2, 2]


def test_what_was_not_granted_does_not_add_up():
    """30 were wanted, 8 is the most there is; then 4 are wanted: the way down begins at 8.5, not at 30."""
    assert ease(30.0, 4, 8, GAINS) == pytest.approx(8.5 - 0.4 * 4.5)


def test_a_way_down_that_is_held_back_is_gone_on_with():
    """3 → 2 is blocked each time, S stays near 2.5 and 2 is proposed again and again."""
    level, proposed = 3.0, []
    for _ in range(5):
        level = ease(level, 2, 3, GAINS)
        proposed.append(round_half_up(level))
    assert proposed == [3, 2, 2, 2, 2]
