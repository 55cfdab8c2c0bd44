import pytest

from rheostat.config.models import Settings
from rheostat.errors import InputError
from rheostat.judge.cases import JOB_OWNS, UNUSED, loads_of, ready
from rheostat.judge.request import RequestOptions, read_request, seeds_of


def fields(caught):
    return [fault.field for fault in caught.value.faults]


def test_every_fault_of_a_command_comes_at_once():
    texts = RequestOptions(
        policy="hpa:quick",
        trace="none.csv",
        seed="x",
        longest="5",
        rate="-1",
        job="bass",
        sets=["nothing", "guard.x=1"],
    )
    with pytest.raises(InputError) as caught:
        read_request(texts)
    assert set(fields(caught)) == {
        "--set",
        "rate",
        "longest",
        "seed",
        "trace",
        "job",
        "guard.x",
        "policy_options.preset",
    }
    hints = {fault.field: fault.message for fault in caught.value.faults}
    assert hints["job"] == "there is no job of this name; did you mean 'base'?"


def test_a_setting_belongs_to_the_loop_the_policy_or_the_job(tmp_path):
    config = tmp_path / "settings.yaml"
    config.write_text("objective: lag < 40s\nexecutors: [2, 6]\npolicy: reactive\nguard: {cooldown_down_s: 5.0}\n")
    sets = ["guard.largest_step_down=2", "policy_options.headroom=0.8", "job.executor.start_up.p95_s=60", "sample_s=5"]
    asked = read_request(RequestOptions(config=config, sets=sets, preset="faithful", shapes=["constant:5@60"]))
    [found], job = asked.specs, asked.variants[0].job
    assert found.policy == "reactive"
    assert found.options == {"headroom": 0.8}
    assert found.settings == {"guard": {"cooldown_down_s": 5.0, "largest_step_down": 2}, "preset": "faithful"}
    assert (job.objective, job.executors, job.decide_every_s) == ("lag < 40s", (2, 6), 5.0)
    assert job.executor.start_up.p95_s == 60.0


def test_a_faulty_setting_hides_no_fault_of_the_others():
    with pytest.raises(InputError) as caught:
        read_request(
            RequestOptions(shapes=["constant:5@60"], sets=["nothing", "job.triger_s=5", "guard.x=1", "policy=[a]"])
        )
    assert set(fields(caught)) == {"--set", "triger_s", "guard.x", "policy"}


@pytest.mark.parametrize("key", ["executor.start_up.median_s", "stages.0.cost_ms", "trigger_s"])
def test_a_key_of_the_job_file_without_its_prefix_gets_a_hint(key):
    with pytest.raises(InputError) as caught:
        read_request(RequestOptions(shapes=["constant:5@60"], sets=[f"{key}=30", "guard.x=1"]))
    faults = {fault.field: (fault.allowed, fault.message) for fault in caught.value.faults}
    assert faults.keys() == {key, "guard.x"}
    assert faults[key] == (f"job.{key}", f"it is a key of the job file; did you mean 'job.{key}'?")


def test_a_key_of_the_job_file_in_a_settings_file_gets_a_hint(tmp_path):
    config = tmp_path / "settings.yaml"
    config.write_text("objective: lag < 40s\ntrigger_s: 5\n")
    with pytest.raises(InputError) as caught:
        read_request(RequestOptions(config=config, shapes=["constant:5@60"]))
    assert [(fault.field, fault.allowed) for fault in caught.value.faults] == [("trigger_s", "job.trigger_s")]


@pytest.mark.parametrize("key", ["job", "policy", "policy_options"])
def test_a_setting_of_another_kind_is_a_fault(key):
    with pytest.raises(InputError) as caught:
        read_request(RequestOptions(shapes=["constant:5@60"], sets=[f"{key}=3"]))
    assert fields(caught) == [key]


def test_a_seed_has_no_thousands_of_digits():
    with pytest.raises(InputError, match="these are no seeds"):
        seeds_of("9" * 5000)


def test_a_job_that_carries_nothing_is_refused():
    asked = read_request(RequestOptions(shapes=["constant:5@60"], sets=["job.driver.planning_s=100.0"]))
    with pytest.raises(InputError, match="it carries nothing within its objective") as caught:
        ready(asked.cases[0])
    assert fields(caught) == ["job"]


def test_a_load_that_can_never_be_processed_is_refused():
    asked = read_request(RequestOptions(shapes=["constant:1e9@300"], as_is=True))
    with pytest.raises(InputError, match="3e\\+11 records") as caught:
        ready(asked.cases[0])
    assert fields(caught) == ["shape"]
    assert ready(read_request(RequestOptions(shapes=["constant:1e5@300"], as_is=True)).cases[0]).load.peak == 1e5


def test_the_fault_of_an_empty_load_names_the_option_that_gave_it(tmp_path):
    trace = tmp_path / "calm.csv"
    trace.write_text("second,events_per_second\n0,0\n1,0\n")
    with pytest.raises(InputError) as caught:
        read_request(RequestOptions(trace=str(trace), shapes=["constant:0@60", "constant:5@60"], seed="x"))
    faults = {fault.field: fault for fault in caught.value.faults}
    assert set(faults) == {"trace", "shape", "seed"}
    assert (faults["trace"].given, faults["shape"].given) == (str(trace), "constant:0@60")
    assert faults["shape"].message == "it offers nothing at all"


def test_a_number_with_an_exponent_is_a_number_of_the_job():
    asked = read_request(RequestOptions(shapes=["constant:5@60"], sets=["job.sink.records_per_s=1e6"]))
    assert asked.variants[0].job.sink.records_per_s == 1e6


def test_a_request_is_made_of_jobs_loads_and_seeds():
    asked = read_request(
        RequestOptions(
            policy="static", shapes=["constant:5@60", "sine:1..5@60"], seed="3,4", sets=["job.trigger_s=5.0"]
        )
    )
    assert [(case.load.name, case.seed) for case in asked.cases] == [
        ("constant:5@60", 3),
        ("constant:5@60", 4),
        ("sine:1..5@60", 3),
        ("sine:1..5@60", 4),
    ]
    assert {case.job.trigger_s for case in asked.cases} == {5.0}


def test_without_names_all_policies_but_schedule_are_compared():
    names = [each.label for each in read_request(RequestOptions(shapes=["constant:5@60"])).specs]
    assert {"static", "reactive", "hpa", "flink"} <= set(names)
    assert "schedule" not in names


def test_a_single_run_is_one_policy_one_load_and_one_seed():
    assert read_request(RequestOptions(shapes=["constant:5@60"]), one_run=True).specs[0].label == "reactive"
    with pytest.raises(InputError) as caught:
        read_request(RequestOptions(policy="hpa,keda", shapes=["constant:5@60"], seed="1,2"), one_run=True)
    assert set(fields(caught)) == {"policy", "seed"}


def test_a_search_for_the_worst_load_takes_no_load():
    asked = read_request(RequestOptions(policy="hpa", worst_case=True, tries="5", seconds="600"))
    assert [(hunt.spec.label, hunt.seconds, hunt.tries) for hunt in asked.hunts] == [("hpa", 600.0, 5)]
    with pytest.raises(InputError) as caught:
        read_request(RequestOptions(policy="hpa", worst_case=True, seconds="5", shapes=["constant:5@60"]))
    assert set(fields(caught)) == {"shape", "seconds"}


def test_a_folder_stands_for_all_of_its_traces(tmp_path):
    for name in ("b", "a"):
        (tmp_path / f"{name}.csv").write_text("second,events_per_second\n0,5\n1,6\n")
    (tmp_path / "other.csv").write_text("x,y\n1,2\n")
    assert [load.name for load in loads_of(str(tmp_path), [])] == ["a", "b"]


def test_two_loads_of_one_name_are_a_fault(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("second,events_per_second\n0,5\n1,6\n")
    with pytest.raises(InputError) as caught:
        loads_of(f"{file},{file}", [])
    assert caught.value.faults[0].message == "two loads would have one name in the tables"


@pytest.mark.parametrize("text", ["", "1,x", "-1", "1.5"])
def test_text_that_is_no_seed_is_a_fault(text):
    with pytest.raises(InputError):
        seeds_of(text)


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        pytest.param("journal=out", "rheostat simulate has --journal for it", id="a journal"),
        pytest.param("state=out", "a simulation keeps none", id="a state"),
        pytest.param("mode=watch", "always scaled", id="a mode"),
        pytest.param("queries=[a]", "one query", id="queries"),
        pytest.param("allow_redone_work=true", "job.rescale", id="how executors go"),
        pytest.param("actuator=executors", "no Workers", id="an actuator"),
        pytest.param("workers.backup=3", "no Workers", id="a key of the Workers"),
        pytest.param("metrics.port=9090", "serves none", id="a port"),
    ],
)
def test_a_setting_without_effect_in_a_simulation_is_refused(pair, why):
    with pytest.raises(InputError) as caught:
        read_request(RequestOptions(shapes=["constant:5@60"], sets=[pair]))
    assert fields(caught) == [pair.split("=")[0]]
    assert why in caught.value.faults[0].message


def test_every_setting_is_used_or_is_known_to_have_no_effect_in_a_simulation():
    decide = {"profile", "rate_window_s", "policy", "policy_options", "preset", "guard"}
    assert decide | UNUSED.keys() | JOB_OWNS.keys() == Settings.model_fields.keys()
    assert not decide & UNUSED.keys()


def test_a_settings_file_of_a_live_job_is_accepted_and_settings_without_effect_are_listed(tmp_path):
    config = tmp_path / "settings.yaml"
    config.write_text("journal: out\nmode: act\nmetrics: {port: 9090}\npolicy: hpa\nguard: {tolerance: 0.2}\n")
    texts = RequestOptions(
        config=config, policy="hpa,reactive", shapes=["constant:5@60"], sets=["guard.align_most=0.5"]
    )
    assert [(each.field, each.why) for each in read_request(texts).idle] == [
        ("journal", "rheostat simulate has --journal for it"),
        ("metrics", "a simulation serves none"),
        ("guard.tolerance", "the policy hpa does tolerance by rules of its own"),
        ("guard.align_most", "nothing is aligned: give guard.align_to"),
    ]


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        pytest.param("0,1e308\n1,1e308\n", None, id="more records than a number holds"),
        pytest.param("0,1e-308\n1,1e-308\n", None, id="next to none"),
        pytest.param("0,5\n1e308,5\n", None, id="no end"),
        pytest.param(None, "constant:1e308@60", id="a shape of more than there are"),
        pytest.param(None, "constant:5@1e-300", id="a shape that is over at once"),
        pytest.param(None, "daily:1..5@1e12", id="a shape without an end"),
    ],
)
def test_a_load_out_of_range_is_refused(tmp_path, rows, shape):
    trace = tmp_path / "trace.csv"
    trace.write_text(f"second,events_per_second\n{rows}")
    with pytest.raises(InputError) as caught:
        read_request(RequestOptions(shapes=[shape]) if rows is None else RequestOptions(trace=str(trace)))
    [fault] = caught.value.faults
    assert fault.field == ("shape" if rows is None else "trace")
    assert "e+" in fault.allowed
