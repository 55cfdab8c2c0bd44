"""Traces and variation files."""

import pytest

from rheostat.errors import InputError
from rheostat.load.files import read_trace, read_traces, read_variation, trace_files

HEADER = "second,events_per_second\n"


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def messages(caught):
    return [(f.message.split(", ", 1)[1], f.given, f.allowed) for f in caught.value.faults]


def test_a_trace_is_straight_between_the_middles_of_its_bins(write):
    curve = read_trace(write("trace.csv", HEADER + "0,100\n60,200\n120,50\n"))
    assert curve.duration == 180
    assert [curve.rate(t) for t in (0, 30, 60, 90, 120, 150, 179)] == [100, 100, 150, 200, 125, 50, 50]


def test_a_trace_offers_the_sum_of_its_bins(write):
    curve = read_trace(write("trace.csv", HEADER + "0,100\n60,200\n120,50\n"))
    assert curve.cumulative(180) == 60 * 350


def test_a_trace_may_begin_late_and_be_commented(write):
    curve = read_trace(write("trace.csv", "\ufeff# made by hand\n" + HEADER + "3600,5 # five\n\n3601,7\n"))
    assert (curve.duration, curve.cumulative(2)) == (2, 12)


def test_one_line_is_one_second(write):
    assert read_trace(write("trace.csv", HEADER + "0,8\n")).cumulative(9) == 8


def test_every_faulty_line_is_named(write):
    path = write("trace.csv", HEADER + "0,1\n10,2\n20,nan\n30,-4\n40,5\n60,6\n50,7\nx,8\n70,9,9\n")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    unreadable = "second,events_per_second: two finite numbers ≥ 0"
    assert messages(caught) == [
        ("line 4: cannot be read", "20,nan", unreadable),
        ("line 5: cannot be read", "30,-4", unreadable),
        ("line 9: cannot be read", "x,8", unreadable),
        ("line 10: cannot be read", "70,9,9", unreadable),
        ("line 7: a gap, or another width: bins are 10 s wide", "60", "50"),
        ("line 8: does not come after second 60", "50", "70"),
    ]
    assert all(str(path) in fault.message for fault in caught.value.faults)


def test_a_line_that_cannot_be_read_makes_no_gap_of_the_next_one(write):
    with pytest.raises(InputError) as caught:
        read_trace(write("trace.csv", HEADER + "0,1\n1,nan\n2,1\n"))
    assert [message for message, _, _ in messages(caught)] == ["line 3: cannot be read"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not begin with the header"),
        ("time,rate\n0,1\n", "does not begin with the header"),
        (HEADER, "the trace is empty"),
    ],
    ids=["empty file", "another header", "header only"],
)
def test_what_is_no_trace_is_refused(write, text, message):
    with pytest.raises(InputError, match=message):
        read_trace(write("trace.csv", text))


def test_a_missing_file_is_a_fault(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_trace(tmp_path / "none.csv")


def test_a_thousand_faults_are_counted_not_listed(write):
    with pytest.raises(InputError) as caught:
        read_trace(write("trace.csv", HEADER + "0,1\n" + "x,y\n" * 1000))
    assert len(caught.value.faults) == 101
    assert "and 900 faults more" in caught.value.faults[-1].message


def test_a_folder_is_its_traces_by_name(write, tmp_path):
    for name, text in (("b.csv", HEADER + "0,2\n"), ("a.csv", HEADER + "0,1\n"), ("c.csv", "x,y\n1,2\n")):
        write(name, text)
    assert [path.name for path in trace_files(tmp_path)] == ["a.csv", "b.csv"]
    curve = read_traces([tmp_path])
    assert [curve.rate(0), curve.rate(1), curve.duration] == [1, 2, 2]


def test_faults_of_several_files_come_together(write, tmp_path):
    one, other = write("one.csv", "x\n"), write("other.csv", HEADER + "0,x\n")
    with pytest.raises(InputError) as caught:
        read_traces([one, other, tmp_path / "none.csv"])
    named = {name for name in ("one.csv", "other.csv", "none.csv") for f in caught.value.faults if name in f.message}
    assert named == {"one.csv", "other.csv", "none.csv"}


def test_a_folder_without_traces_is_a_fault(tmp_path):
    with pytest.raises(InputError, match="has none"):
        read_traces([tmp_path])


def test_a_level_is_threads_for_so_many_seconds(write):
    curve = read_variation([write("v.txt", "10, 500\n# rise\n\n20,700\n10,600 # end\n")], rate_per_level=2)
    assert curve.duration == 40
    assert [curve.rate(t) for t in (0, 10, 29.9, 30)] == [1000, 1400, 1400, 1200]
    assert curve.cumulative(40) == 10_000 + 28_000 + 12_000


def test_agents_drive_the_load_together(write):
    curve = read_variation([write("a.txt", "10,1\n"), write("b.txt", "5,2\n5,0\n")], rate_per_level=100)
    assert [curve.rate(0), curve.rate(5), curve.cumulative(10)] == [300, 100, 2_000]


def test_every_faulty_line_of_every_agent_is_named(write):
    with pytest.raises(InputError) as caught:
        read_variation([write("a.txt", "0,1\n5,1.5\n"), write("b.txt", "five,2\n"), write("c.txt", "\n")], 1)
    assert [text for text, _, _ in messages(caught)] == [
        "line 1: a level must last some time",
        "line 2: a level is a number of threads",
        "line 1: cannot be read",
        "line 1: the file is empty",
    ]


def test_of_a_file_that_is_no_trace_only_the_header_is_reported(write):
    with pytest.raises(InputError) as caught:
        read_trace(write("trace.csv", "run,second,throughput\na,0,1\nb,1,2\n"))
    assert [fault.given for fault in caught.value.faults] == ["run,second,throughput"]
