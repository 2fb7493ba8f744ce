"""All checks of an execution provider in one class: what an author subclasses.

The whole conformance test of a provider is often::

    class TestMine(ProviderSuite):
        provider = "MyExecutionProvider"
        expected_failures = Path(__file__).with_name("mine.xfail.txt")
"""

from __future__ import annotations

from ort_py_kit.suites.artifacts import ArtifactChecks
from ort_py_kit.suites.capability import CapabilityChecks
from ort_py_kit.suites.growth import GrowthChecks
from ort_py_kit.suites.lifetimes import LifetimeChecks
from ort_py_kit.suites.listing import ListingChecks
from ort_py_kit.suites.options import OptionChecks
from ort_py_kit.suites.results import ResultChecks
from ort_py_kit.suites.shapes import ShapeChecks
from ort_py_kit.suites.threads import ThreadChecks
from ort_py_kit.suites.versions import VersionChecks


class ProviderSuite(
    ListingChecks,
    OptionChecks,
    CapabilityChecks,
    ResultChecks,
    VersionChecks,
    LifetimeChecks,
    ThreadChecks,
    GrowthChecks,
    ShapeChecks,
    ArtifactChecks,
):
    """The conformance tests of an execution provider; `ProviderChecks` has the attributes to set."""
