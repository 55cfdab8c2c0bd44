"""An option that would change nothing beside the others is refused, wherever it is, with all other faults."""

import json

import pytest

from rheostat.cli import main

SHORT = ["--shape", "constant:5@120"]


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        (["tune", *SHORT, "--last", "2h"], {"last": "with --journal"}),
        (["compare", *SHORT, "--tries", "5"], {"tries": "with --worst-case"}),
        (
            ["compare", "--worst-case", "--policy", "static", "--sort", "cost", "--longest", "2h", "--as-is"],
            dict.fromkeys(("sort", "longest", "as_is"), "without --worst-case"),
        ),
        (["compare", "--worst-case", "--policy", "static", "--seed", "1,2"], {"seed": "one, with --worst-case"}),
        (
            ["simulate", *SHORT, "--rate", "5", "--seconds", "7"],
            {
                "rate": "with a --shape that does not say its rates",
                "seconds": "with a --shape that does not say its own",
            },
        ),
        (
            ["calibrate", "--recorded", "/dev/null", "--name", "a", "--warm-up", "3"],
            {"name": "with journals", "warm_up": "with journals"},
        ),
        (["calibrate", "--profiles", "/dev/null", "--scale", "2"], {"scale": "with --recorded"}),
        (["lab", "up", "--no-spark", "--workers", "2"], {"workers": "with --spark"}),
        (["lab", "up", "--no-broker", "--kafka-port", "9092"], {"kafka_port": "with --broker"}),
        (["experiment", "s1", "--part", "5.2", "--trace", "/dev/null"], {"trace": "with s1, part 5.4"}),
        (["experiment", "s2", "--part", "live", "--profiles", "/dev/null"], {"profiles": "with s2, part model"}),
        (["experiment", "s5", "--live"], {"live": "with s1, s2, s3"}),
        (["experiment", "s1", "--live", "--seed", "1,2", "--jobs", "1"], {"seed": "one, with --live"}),
        (["load", "--topic", "a", "--trips", "/dev/null", "--seed", "1"], {"--seed": "with --trips synthetic"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_fault_says_where_the_option_has_an_effect(arguments, places, capsys):
    assert main([*arguments, "--json"]) == 2
    faults = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    told = {fault["field"]: fault["allowed"] for fault in faults}
    assert places.items() <= told.items()


def test_the_same_option_is_accepted_where_it_has_an_effect(capsys):
    arguments = ["simulate", "--policy", "static", "--shape", "sine", "--rate", "5", "--seconds", "120", "--json"]
    main(arguments)
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["seconds"] >= 120
