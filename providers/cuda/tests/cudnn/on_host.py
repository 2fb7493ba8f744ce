"""cuDNN on the host: both doors with stand-ins behind them, until a test ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ort_py.contracts.kernel import KernelDef
from ort_py_cuda import settings
from ort_py_cuda.cudnn import frontend, library, plans
from ort_py_cuda.cudnn.library import Cudnn
from ort_py_cuda.settings import Settings
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec
from providers.cuda.tests.cudnn.fake_frontend import FakeFrontend
from providers.cuda.tests.cudnn.fake_library import FakeLibrary
from providers.cuda.tests.cudnn.host_module import HostModule, to_device

__all__ = ["Host", "close", "cudnn_on_host"]


@dataclass
class Host:
    """Stand-in for CuPy and cuDNN."""

    xp: HostModule
    frontend: FakeFrontend
    library: FakeLibrary
    binding: Cudnn

    def kernel(
        self,
        definitions: Iterable[KernelDef],
        op_type: str,
        inputs: Sequence[Any],
        *,
        domain: str = "",
        outputs: int = 1,
        constants: Sequence[int] = (),
        wishes: Settings | None = None,
        opset: int | None = None,
        output_mask: Sequence[bool] | None = None,
        **attributes: Any,
    ) -> tuple[Any, list[Any]]:
        """The bound kernel of a node, and its inputs on the device."""
        given = list(inputs)
        while given and given[-1] is None:
            given.pop()
        node = make_node_spec(
            op_type,
            given,
            domain=domain,
            opset=opset,
            outputs=outputs,
            output_mask=output_mask,
            attributes=attributes,
        )
        definition = next(
            one
            for one in definitions
            if (one.op_type, one.domain) == (op_type, domain) and one.since <= node.since_version <= one.last
        )
        context = LocalKernelContext(node, self.xp, {index: given[index] for index in constants})
        call = settings.applied(wishes or Settings(), definition.factory, context)
        return call, [to_device(one) for one in given]

    def run(self, definitions: Iterable[KernelDef], op_type: str, inputs: Sequence[Any], **options: Any) -> Any:
        """Bind and call; the outputs. NumPy is silent, as in the engine."""
        call, given = self.kernel(definitions, op_type, inputs, **options)
        with np.errstate(all="ignore"):
            return call(*given)

    @property
    def executed(self) -> list[Any]:
        """The executed calls, in order."""
        return [what[3] for what in self.xp.order if what[0] == "execute"]


def cudnn_on_host(monkeypatch: pytest.MonkeyPatch, *, with_frontend: bool = True, with_library: bool = True) -> Host:
    """Put the stand-ins behind both doors; a door may also be left shut."""
    xp = HostModule()
    fake, old = FakeFrontend(xp.order), FakeLibrary(xp.order)
    binding = Cudnn(old)
    monkeypatch.setattr(frontend, "_module", fake if with_frontend else None)
    if not with_frontend:
        monkeypatch.setattr(frontend, "_unsuitable", lambda: "the front end is not installed, in this test")
    shared = plans.Plans()
    monkeypatch.setattr(plans, "_SHARED", shared)
    opened = binding if with_library else None
    monkeypatch.setattr(library, "_opened", lambda: _given(opened))
    return Host(xp, fake, old, binding)


def _given(binding: Cudnn | None) -> Cudnn:
    from ort_py.errors import EPFail

    if binding is None:
        raise EPFail("libcudnn cannot be loaded.", why="this test has none", fix="nothing")
    return binding


def close(actual: Any, expected: Any, dtype: Any) -> None:
    """Compare in the tolerance of the type that was computed in."""
    tolerance = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}[np.dtype(dtype).name]
    np.testing.assert_allclose(
        np.asarray(actual).astype(np.float64), np.asarray(expected).astype(np.float64), rtol=tolerance, atol=tolerance
    )
