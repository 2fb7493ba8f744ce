"""Each wrong provider is caught by the check that is about it, with a message that says what to change.

The kit runs in a pytest of its own in this process, as an author would run it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ort_py.discovery import default_catalog
from tests.kit.broken.plugins import PROVIDERS
from tests.kit.inner import run_inside

pytest_plugins = ("pytester",)

SUITE = """
from ort_py_kit import ProviderSuite

class TestBroken(ProviderSuite):
    provider = "{name}"
    plugin = "tests.kit.broken.plugins"
    cases = ("node/test_relu", "node/test_add")
    graphs = 12
"""

CAUGHT: dict[str, tuple[str, str, str]] = {
    "WrongResults": ("test_backend_case[node/test_relu]", "does not give what ONNX expects (it runs Relu)", "refuse"),
    "WritesToInputs": ("test_inputs_are_not_written_to", "'x' was fed, and is changed", "KernelDef.inplace"),
    "Leaks": ("test_memory_stays_flat_over_runs", "each run leaves", "drop what a run made"),
    "LeaksNatively": ("test_memory_stays_flat_over_runs", "makes the process", "native handles"),
    "LeaksSessions": ("test_memory_stays_flat_over_sessions", "each session leaves", "module-level tables"),
    "SharesScratch": ("test_threads_share_a_session", "threads fail", "RegionInstance"),
    "OverwritesOutputs": ("test_outputs_outlive_the_next_run", "changed after the next run", "a new one each run"),
    "FreesTooEarly": ("test_outputs_outlive_feeds_and_session", "when the session was closed", "hold its owner"),
    "KeepsFeeds": ("test_feeds_are_let_go", "the feed 'x' is still held", "forget inputs"),
    "FirstShapeOnly": ("test_sizes_may_change", "size 1 in run 2", "read shapes from the arrays"),
    "NotEmpty": ("test_arrays_may_be_empty", "the library takes no empty tensors", "without calling a library"),
    "LiesAboutRegions": ("test_it_runs_what_it_claims", "no translation of", "refuse such nodes"),
    "LiesAboutKernels": ("test_its_kernel_claims_have_kernels", "has no kernel", "kernels.find"),
    "FailsInRuns": ("test_it_runs_what_it_claims", "Relu of this shape", "refuse such nodes"),
    "ClaimsOtherNodes": ("test_its_answer_is_about_the_graph", "is not one of", "each once"),
    "ReturnsInputs": ("test_kernels_own_their_outputs", "shares memory with input 0", "KernelDef.views"),
    "RefusesSilently": ("test_its_refusals_have_reasons", "is refused without a reason", "a Refusal with a sentence"),
    "ChangesItsMind": ("test_its_answer_is_the_same_again", "and then []", "keep no state"),
    "BindsOnce": ("test_feeds_are_let_go", "of run 2", "called before each run"),
    "ReturnsUnwritten": ("test_memory_of_the_caller_is_filled", "y of run 2", "write the whole result there"),
    "Misnamed": ("test_it_is_made_with_its_defaults", "calls itself 'SomeoneElses", "return the factory's name"),
    "TooNew": ("test_it_is_listed", "written for contract version 99", "ApiRange("),
    "AllVersions": ("test_its_contract_versions_are_a_range", "contract versions 1 to 1000", "have tested with"),
    "SlowProbe": ("test_its_probe_is_quick", "of which 20 are allowed", "importlib.util.find_spec"),
    "VendorProbe": ("test_its_probe_imports_nothing_of_others", "acme_sdk (at the probe)", "import them in `create`"),
    "ThreadProbe": ("test_its_probe_starts_no_thread", "1 new threads", "start threads in `create`"),
    "LoudProbe": ("test_its_probe_prints_nothing", "Acme SDK 3.1", "`logging`"),
    "Reasonless": ("test_it_is_listed", "does not say why", "a reason and a fix"),
    "BadOptions": ("test_its_options_are_declared_rightly", "not among its choices", "correct the OptionSpecs"),
}
"""For each provider the check that finds it out, what it says, and a word of what to change."""


@pytest.fixture(autouse=True)
def forgotten(pytester: pytest.Pytester) -> Iterator[None]:
    """An SDK that a probe could import; providers are forgotten afterwards."""
    pytester.makepyfile(acme_sdk="")
    pytester.syspathinsert()
    default_catalog().reset()
    yield
    default_catalog().reset()


def judged(pytester: pytest.Pytester, name: str, *arguments: str) -> pytest.RunResult:
    """The kit's verdict on a provider."""
    return run_inside(pytester, SUITE.format(name=f"{name}ExecutionProvider"), *arguments)


@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_it_is_caught(name: str, pytester: pytest.Pytester) -> None:
    """By the check named, which tells what it found and what to change."""
    check, found, fix = CAUGHT[name]
    result = judged(pytester, name, "-k", check.partition("[")[0])
    printed = result.stdout.str()
    assert f"TestBroken.{check} _" in printed, printed
    assert found in printed
    (advice,) = {line for line in printed.splitlines() if line.startswith("What to change:") and fix in line}
    assert advice


def test_every_wrong_provider_has_its_check() -> None:
    """The table names all of them."""
    assert {f"{name}ExecutionProvider" for name in CAUGHT} == set(PROVIDERS) - {"SoundExecutionProvider"}


@pytest.mark.nightly  # every check, which sound providers pass in `tests/kit` too
def test_the_sound_one_passes(pytester: pytest.Pytester) -> None:
    """The base class of the faulty ones is right, so the kit finds exactly the injected defect."""
    outcomes = judged(pytester, "Sound").parseoutcomes()
    assert "failed" not in outcomes
    assert "errors" not in outcomes
    assert outcomes["passed"] > 30


def with_failures(pytester: pytest.Pytester, lines: str, chosen: str) -> pytest.RunResult:
    """The verdict on the provider whose Relu is wrong, with a file of expected failures."""
    pytester.path.joinpath("wrong.xfail.txt").write_text(lines, encoding="utf-8")
    text = SUITE.format(name="WrongResultsExecutionProvider")
    text += f"    expected_failures = {str(pytester.path / 'wrong.xfail.txt')!r}\n"
    return run_inside(pytester, text, "-k", chosen)


def test_a_known_failure_is_expected(pytester: pytest.Pytester) -> None:
    """A case that is listed with its reason fails as expected."""
    result = with_failures(pytester, "node/test_relu: rounds up\n", "test_relu]")
    assert result.parseoutcomes()["xfailed"] == 1


def test_a_listed_case_that_passes_is_a_failure(pytester: pytest.Pytester) -> None:
    """It must leave the list, whose reason is shown."""
    result = with_failures(pytester, "node/test_add: was wrong once\n", "test_add]")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["*XPASS(strict)*was wrong once*"])


def test_a_check_can_be_expected_to_fail(pytester: pytest.Pytester) -> None:
    """By its name, with its reason."""
    check = "test_random_graphs_agree_with_the_cpu"
    assert with_failures(pytester, f"{check}: rounds up\n", check).parseoutcomes()["xfailed"] == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("node/test_no_such_case: why", "lists what does not exist"),
        ("test_no_such_check: why", "lists what does not exist"),
        ("node/test_relu", "'node/test_relu' has no reason"),
    ],
)
def test_mistakes_in_the_list_are_failures(line: str, message: str, pytester: pytest.Pytester) -> None:
    """Names that are neither a case nor a check, and lines without a reason."""
    result = with_failures(pytester, f"{line}\n", "test_expected_failures_are_cases")
    assert result.parseoutcomes()["failed"] == 1
    assert message in result.stdout.str()
