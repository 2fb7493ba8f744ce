"""``ort-py run``: what it feeds, what it prints, what it saves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core.tests.cli.conftest import Call, Save
from ort_py.discovery import default_catalog

TWO = "g (float[2] a, int64[2] b) => (float[2] y) { c = Cast <to = 1> (b) y = Add(a, c) }"
SCORES = "g (float[1, 10] x) => (float[1, 10] y) { y = Softmax(x) }"


def test_prints_inputs_outputs_runners_and_times(call: Call, save: Save) -> None:
    """One page says everything about the run."""
    outcome = call("run", save(), "--dim", "N=2")
    assert outcome.code == 0
    assert "x: float[2, 3] from random values" in outcome.out
    assert "y: float[2, 3]  min " in outcome.out
    assert "CPUExecutionProvider  1" in outcome.out
    assert "loading  " in outcome.out
    assert "running  first run " in outcome.out
    assert outcome.err == ""


def test_json_report(call: Call, save: Save) -> None:
    report = call("run", save(), "--dim", "N=2", "--json").report
    assert report["providers"] == ["CPUExecutionProvider"]
    assert report["nodes"] == {"CPUExecutionProvider": 1}
    assert set(report["stages_ms"]) >= {"load", "validate", "partition", "plan"}
    (output,) = report["outputs"]
    assert (output["name"], output["dtype"], output["shape"]) == ("y", "float", [2, 3])
    assert output["min"] <= output["mean"] <= output["max"]


def test_assumed_dimensions_are_noted(call: Call, save: Save) -> None:
    """A size that was not given is 1, and standard error reports it."""
    outcome = call("run", save())
    assert "note: 'x' is generated with 'N' = 1. Set sizes with --dim NAME=SIZE" in outcome.err


def test_repeat_shows_median_and_best(call: Call, save: Save) -> None:
    """Repeated runs are timed apart from the first."""
    assert "; 3 more: median " in call("run", save(), "--repeat", "3").out
    times = call("run", save(), "--repeat", "3", "--json").report["times"]
    assert times["repeated"] == 3
    assert times["min_ms"] <= times["median_ms"]


def test_same_seed_same_output(call: Call, save: Save, tmp_path: Path) -> None:
    """Random inputs are those of the seed."""
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        call("run", save(), "--seed", seed, "--output", tmp_path / folder)
    first, same, other = (np.load(tmp_path / folder / "y.npy") for folder in "abc")
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_npy_inputs_by_name(call: Call, save: Save, tmp_path: Path) -> None:
    """Each input from its file; the output is saved under its name."""
    np.save(tmp_path / "a.npy", np.array([1, 2], np.float32))
    np.save(tmp_path / "b.npy", np.array([10, 20]))
    outcome = call(
        "run",
        save(TWO),
        "--input",
        f"a={tmp_path}/a.npy",
        "--input",
        f"b={tmp_path}/b.npy",
        "--output",
        tmp_path / "out",
    )
    assert outcome.code == 0, outcome.err
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), np.array([11, 22], np.float32))
    assert f"saved {tmp_path / 'out' / 'y.npy'}" in outcome.out


def test_npz_holds_all_inputs(call: Call, save: Save, tmp_path: Path) -> None:
    """The arrays of a .npz are fed by their names."""
    np.savez(tmp_path / "all.npz", a=np.ones(2, np.float32), b=np.ones(2, np.int64))
    report = call("run", save(TWO), "--input", tmp_path / "all.npz", "--json").report
    assert report["outputs"][0]["first"] == [2.0, 2.0]


def test_rest_is_made_up_on_request(call: Call, save: Save, tmp_path: Path) -> None:
    """With --generate, inputs without a file are made up."""
    np.save(tmp_path / "a.npy", np.zeros(2, np.float32))
    outcome = call("run", save(TWO), "--input", f"a={tmp_path}/a.npy", "--generate", "ones", "--json")
    assert outcome.report["outputs"][0]["first"] == [1.0, 1.0]


def test_rest_is_missing_without_request(call: Call, save: Save, tmp_path: Path) -> None:
    """Without it, a forgotten input is an error that names it."""
    np.save(tmp_path / "a.npy", np.zeros(2, np.float32))
    outcome = call("run", save(TWO), "--input", f"a={tmp_path}/a.npy")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("MissingInputError: Required input(s) 'b' are missing")


def test_scores_have_a_best_five(call: Call, save: Save) -> None:
    """A row of scores is shown with its best classes."""
    outcome = call("run", save(SCORES), "--json")
    (output,) = outcome.report["outputs"]
    assert len(output["top"]) == 5
    scores = [score for _, score in output["top"]]
    assert scores == sorted(scores, reverse=True)
    assert "best: #" in call("run", save(SCORES)).out


@pytest.mark.parametrize("name", ["CPUExecutionProvider", "cpuexecutionprovider", "CPU", "cpu"])
def test_named_provider(call: Call, save: Save, name: str) -> None:
    """A provider's name may lack the ending that all have, and be in lower case."""
    report = call("run", save(), "--providers", name, "--json").report
    assert report["providers"] == ["CPUExecutionProvider"]


def test_a_name_is_read_without_probing(call: Call, save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of probing is said by what probes, and not as a fault of the argument."""
    monkeypatch.setenv("ORT_PY_PROBE_TIMEOUT", "soon")
    default_catalog().reset()
    outcome = call("run", save(), "--providers", "cpu")
    assert (outcome.code, outcome.out) == (1, "")
    assert "ORT_PY_PROBE_TIMEOUT" in outcome.err


def test_unknown_provider_is_refused(call: Call, save: Save) -> None:
    """A misspelt provider is refused with a suggestion."""
    outcome = call("run", save(), "--providers", "CPUExecutionProvidr")
    assert (outcome.code, outcome.out) == (1, "")
    assert "Did you mean 'CPUExecutionProvider'?" in outcome.err


@pytest.mark.parametrize("limits", ["default", "untrusted", "unlimited"])
def test_limits(call: Call, save: Save, limits: str) -> None:
    """Every preset runs a harmless model."""
    assert call("run", save(), "--limits", limits).code == 0


def test_untrusted_limits_are_stricter(call: Call, save: Save, tmp_path: Path) -> None:
    """A gigabyte for one array is too much for a stranger's model."""
    np.save(tmp_path / "n.npy", np.array([2**28]))
    model = save("g (int64[1] n) => (float[N] y) { y = ConstantOfShape(n) }")
    outcome = call("run", model, "--limits", "untrusted", "--input", f"{tmp_path}/n.npy")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("LimitError: ")


@pytest.mark.parametrize(
    "option", [("--repeat", "x"), ("--dim", "N"), ("--shape", "x=1xy"), ("--size", "10"), ("--mean", "a")]
)
def test_malformed_options_end_with_2(call: Call, save: Save, option: tuple[str, str]) -> None:
    """An unreadable value is a wrong command line, not a failed job."""
    outcome = call("run", save(), *option)
    assert (outcome.code, outcome.out) == (2, "")


def test_strings_and_sequences(call: Call, save: Save, tmp_path: Path) -> None:
    """Outputs of every kind are shown and saved."""
    model = save(
        "g (string[2] s, seq(float[2]) q) => (string[2] t, seq(float[2]) r) { t = Identity(s) r = Identity(q) }"
    )
    outcome = call("run", model, "--shape", "q=2", "--output", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert "t: string[2]" in outcome.out
    assert "r: sequence of 2" in outcome.out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"t.npy", "r.0.npy", "r.1.npy"}
    assert np.load(tmp_path / "out" / "t.npy").dtype.kind == "U"
