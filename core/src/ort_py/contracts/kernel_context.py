"""The context that a kernel is bound with: its node, the constants known at that time, and services of the engine.

Comes before `kernel`, which declares what gets it. Imports no engine room; `ort_py.kernels.binding` implements it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ort_py.devices import HOST, Device

if TYPE_CHECKING:
    from ort_py.contracts.graph_view import Array, NodeSpec

T = TypeVar("T")

SubgraphCallable: TypeAlias = Callable[..., list[Any]]
"""A graph of the node, to be called: ``subgraph(*inputs)`` → list of outputs. See `KernelContext.subgraph`."""


class KernelContext(ABC):
    """Information and services for one bound node. The engine creates it and keeps it as long as the session.

    Attributes:
        node: The node this kernel was bound to.
        xp: The array module of the node's provider: its arrays come from here (NumPy on the CPU).
        device: Device of inputs and outputs, those that the `KernelDef` puts on the host excepted.
    """

    __slots__ = ("device", "node", "xp")

    def __init__(self, node: NodeSpec, xp: Any, device: Device = HOST) -> None:
        self.node = node
        self.xp = xp
        self.device = device

    @abstractmethod
    def constant(self, index: int) -> Array | None:
        """Input `index` as a host array if it is known when the session is planned, else None.

        The array is read-only: it may be shared by sessions, or be pages of a file. Writing to it raises ValueError;
        copy it, or make what a kernel needs of it with `packed`.
        """

    def packed(
        self, replaced: Sequence[int], form: str, make: Callable[..., T], others: Sequence[int] = ()
    ) -> T | None:
        """Return what the kernel reads in place of constant inputs. It is made once and shared by all kernels that make
        the same.

        For derived arrays of some size (weights shifted, widened, transposed). Ask in the factory. From then on the
        engine need not keep the inputs `replaced`: the callable still gets arrays of their shape and dtype, but with
        no values of their own, so read the result of `make` only. Further sessions of the process with equal constants
        get what the first one made.

        Args:
            replaced: The inputs that are replaced; the first of them must be present.
            form: Name of what `make` does, with all that it depends on but the inputs: attributes, a version. Equal
                forms of equal constants are taken to be equal.
            make: ``make(*arrays)``: the arrays of `replaced` and of `others` on the node's device, None for those that
                the node lacks. Returns an array, or a tuple of arrays and numbers. The result must not be written to.
            others: Further inputs that `make` needs: scales, zero points. They are not replaced.

        Returns:
            What `make` returned; None where one of the inputs is not known when the session is planned.
        """
        arrays = self._known((*replaced, *others))
        return None if arrays is None else make(*arrays)

    def _known(self, positions: Sequence[int]) -> list[Array | None] | None:
        """Return constant inputs on the device, or None if one of them is not constant or the first is absent."""
        given = self.node.inputs
        found: list[Array | None] = []
        for position in positions:
            absent = position >= len(given) or given[position] is None
            value = None if absent else self.constant(position)
            if value is None and (not absent or not found):
                return None
            found.append(None if value is None else self.xp.asarray(value))
        return found

    @abstractmethod
    def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
        """Ask before making an array whose size the *data* decides (Expand, Range, ConstantOfShape, Resize, …).

        Args:
            shape: Shape of the array to be made.
            dtype: Its NumPy dtype.

        Raises:
            LimitError: The array would pass the session's limits. Let it pass through.
        """

    @property
    def is_timed(self) -> bool:
        """True if `check_time` can refuse anything: estimates need not be made otherwise."""
        return False

    def check_time(self, ahead: float = 0.0) -> None:  # noqa: B027 - a context without limits has nothing to look at
        """Ask between the parts of long work whether it may go on; costs a tenth of a microsecond.

        Parts of `parallel_for` are asked about already. Ask in loops over blocks, windows or regions whose number the
        data decide, so that a kernel ends soon after the time of its run (`Limits.run_seconds`). Ask before one call
        that may take long, with an estimate of its time.

        Args:
            ahead: Seconds that the following call is estimated to take, if nothing can interrupt it.

        Raises:
            LimitError: The time of the run, or that for loading, is over, or would be exceeded twice after that call.
                Let it pass through.
            Fail: The caller stopped the run. Likewise.
        """

    @abstractmethod
    def parallel_for(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        """Call ``fn(start, stop)`` over ``range(rows)`` in parts of at least `grain`, on the process-wide pool.

        Returns when all parts are done. Runs inline where the work is small or the thread count is one, and always
        where the kernel's device is not the host: its stream is current on this thread alone. An exception of a part
        is raised here.
        """

    @abstractmethod
    def random_generator(self, seed: float | None) -> Any:
        """A NumPy ``Generator``: seeded by `seed`, else by the session's seed (``set_seed``), else by the system."""

    @abstractmethod
    def subgraph(self, name: str) -> SubgraphCallable | None:
        """Return the graph in the node's attribute `name` as a callable, or None if the node has no such attribute.

        The kernel declares the graph in `KernelDef.subgraphs`; the engine then partitions and plans it like any other,
        with all it captures of the graphs around it. Ask in the factory, call in the kernel, as often as you like:
        ``subgraph(*inputs)`` gives a list with one entry per output. It runs in the frame of the kernel's call, so call
        it on the thread that the kernel was called on, never in `parallel_for`. What it returns may be shared with
        other values: never write to it. Let exceptions pass through: they name the node that failed.

        Raises:
            PluginError: The kernel does not declare it.
        """
