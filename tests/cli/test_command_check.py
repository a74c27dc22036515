"""`idbandits check`: what it prints."""

import idbandits as idb


def test_check_prints_the_report(call, cascade):
    status, out, err = call("check", cascade)
    assert (status, err) == (0, "")
    assert out == repr(idb.Diagram.load(cascade).check()) + "\n"
    assert out.startswith("Diagram 'cascade': nothing serious\n- ")


def test_serious_findings_are_no_failure_of_the_command(call):
    call("models", "dependent_click", "--items", 4, "--positions", 2, "--reward", "satisfaction", "--out", "d.json")
    status, out, _ = call("check", "d.json")
    assert status == 0
    assert "\n! The reward of S2 depends on satisfaction[1]" in out
