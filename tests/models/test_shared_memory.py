"""Every region of every model: whatever shares memory in its plans, the results are those of memory apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import ort_py as ort
from examples.model_zoo import CATALOGUE, ZooModel, fetch
from tests.support.exported_models import EXPORTED, feeds_of
from tests.support.model_comparison import run_case
from tests.support.model_inputs import cases_of

pytest.importorskip("ort_py_onednn.provider", reason="the provider whose plans these are is not installed")

from providers.onednn.tests.checking import watched

PROVIDERS = ["DnnlExecutionProvider", "CPUExecutionProvider"]


def _options() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return options


@pytest.mark.parametrize("path", EXPORTED, ids=lambda path: path.stem)
def test_exported_transformers(path: Path) -> None:
    """Replayed, and run once with fences and nonsense around each buffer; small groups of nodes too."""
    with watched() as watch:
        options = [{"claim_small": True}, {}]
        with ort.InferenceSession(path, _options(), providers=PROVIDERS, provider_options=options) as session:
            session.run(None, feeds_of(path))
            assert not session.fallback_report
    assert watch.runs


@pytest.mark.models
@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
def test_trained_models(model: ZooModel) -> None:
    """The same for what is downloaded: the first case of each."""
    with watched() as watch, ort.InferenceSession(fetch(model), _options(), providers=PROVIDERS) as session:
        run_case(session, cases_of(model)[0])
    assert watch.runs <= watch.plans
