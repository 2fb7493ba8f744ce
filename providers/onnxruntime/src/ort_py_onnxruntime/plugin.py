"""Target of the entry points: a factory for each of onnxruntime's providers, and one for onnxruntime itself.

Light on purpose: discovery imports this file to list providers. The probes look at files only; onnxruntime is imported
when a session asks for one of the providers by its name, which is the only way to get them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ort_py.contracts import (
    ApiRange,
    Availability,
    IDeviceMemory,
    IExecutionProvider,
    OptionSpec,
    ProviderFactory,
    SessionContext,
)
from ort_py.devices import HOST, Device, DeviceClass, Hardware
from ort_py.hooks import hookimpl
from ort_py_onnxruntime.routes import GENERAL, ROUTES, Route

__all__ = ["BridgeFactory", "GeneralFactory", "ort_py_providers"]

_RANK = -100
"""Behind ort-py's own providers for the same class of device."""


class _Factory(ProviderFactory):
    """The base of all providers of the bridge."""

    @property
    def api_range(self) -> ApiRange:
        """Contract versions this was written for and tested with."""
        return ApiRange(1, 1)

    @property
    def default_rank(self) -> int:
        """Behind all others of its class."""
        return _RANK

    @property
    def automatic(self) -> bool:
        """Never chosen unless named: another runtime would change numbers and the time that a session takes to load,
        and nothing has measured that it pays.
        """
        return False


class BridgeFactory(_Factory):
    """Names, describes and probes one of onnxruntime's providers.

    Args:
        name: Its name in onnxruntime.
        route: Where it comes from.
    """

    def __init__(self, name: str, route: Route) -> None:
        self._name = name
        self._route = route

    @property
    def name(self) -> str:
        """onnxruntime's name of the provider."""
        return self._name

    @property
    def vendor(self) -> str:
        """Maker of the hardware or library."""
        return self._route.vendor

    @property
    def device_class(self) -> DeviceClass:
        """Class of its best device."""
        return self._route.device_class

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """The provider's own options, and a door for others."""
        own = [OptionSpec(name, str, "", "forwarded to onnxruntime's provider") for name in self._route.options.split()]
        further = OptionSpec("further_options", str, "", "options that are not listed here: a JSON object")
        small = OptionSpec("claim_small", bool, False, "also take regions with too little work for a call")
        if not self._route.memory:
            return (*own, further, small)
        stay = OptionSpec("device_values", bool, True, "keep values between regions on the device")
        return (*own, further, small, stay)

    def probe(self) -> Availability:
        """Whether the files of an installed onnxruntime, or of a plug-in for it, have the provider."""
        from ort_py_onnxruntime.installed import find

        found = find()
        refused = _unusable(self._route.advice)
        if refused is not None:
            return refused
        build, plugin = found.build, found.plugin(self._name)
        assert build is not None, "without it there is a refusal"
        if plugin is not None:
            words = f"in the plug-in {plugin.module}, with {build.distribution} {build.version}"
            return Availability(True, words, devices=(self._device,))
        if build.has(self._name):
            return Availability(True, f"in {build.distribution} {build.version}", devices=(self._device,))
        return Availability(False, f"{build.distribution} {build.version} does not have it", self._route.advice)

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """A provider for one session. Only now is onnxruntime imported.

        Raises:
            EPFail: onnxruntime does not load, does not have the provider, or finds no device for it.
            OptionError: An option is wrong.
        """
        from ort_py_onnxruntime.provider import OnnxruntimeProvider
        from ort_py_onnxruntime.settings import settings_of_one

        settings = settings_of_one(self._name, options, context.threads)
        residence = None
        if options.get("device_values"):
            from ort_py_onnxruntime.device_values import residence_of

            residence = residence_of(settings)
        small = bool(options["claim_small"])
        return OnnxruntimeProvider(self._name, settings, claims_small=small, residence=residence)

    def hardware(self) -> Sequence[Hardware] | None:
        """Devices that onnxruntime has for the provider. None for a built-in one that it does not list.

        Raises:
            EPFail: onnxruntime does not load, or the plug-in does not register or finds no device.
        """
        from ort_py_onnxruntime.native import devices_of, native

        found = devices_of(self._name) or [one for one in native().get_ep_devices() if one.ep_name == self._name]
        return [_described(one.device) for one in found] or None

    def device_memory(self, device: Device) -> IDeviceMemory | None:
        """Memory of its device, if it has some of its own and onnxruntime copies to it.

        Raises:
            EPFail: onnxruntime does not load.
        """
        if not self._route.memory or device.kind != self._route.memory_kind:
            return None
        from ort_py_onnxruntime.device_values import values_on

        return values_on(device, self._name)

    @property
    def _device(self) -> Device:
        return Device(self._route.memory_kind) if self._route.memory else HOST


class GeneralFactory(_Factory):
    """Names, describes and probes onnxruntime itself, with any of its providers."""

    @property
    def name(self) -> str:
        """The entry point's name."""
        return GENERAL

    @property
    def vendor(self) -> str:
        """onnxruntime's maker."""
        return "Microsoft"

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """Options that choose and configure onnxruntime's providers."""
        return (
            OptionSpec(
                "providers",
                str,
                "CPUExecutionProvider",
                "onnxruntime's providers in order, separated by commas; its CPUExecutionProvider completes",
            ),
            OptionSpec("provider_options", str, "", "their options: a JSON list with one object a provider"),
            OptionSpec("threads", int, 0, "threads of one run; as many as the session has where 0"),
        )

    def probe(self) -> Availability:
        """Whether one onnxruntime is installed; it is not imported."""
        from ort_py_onnxruntime.installed import find

        refused = _unusable("pip install onnxruntime")
        if refused is not None:
            return refused
        build = find().build
        assert build is not None, "without it there is a refusal"
        return Availability(True, f"{build.distribution} {build.version}", devices=(HOST,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """A provider for one session. Only now is onnxruntime imported.

        Raises:
            EPFail: onnxruntime does not load, or finds no device for a provider.
            OptionError: The installed onnxruntime has no provider of a name that is asked for, or an option is wrong.
        """
        from ort_py_onnxruntime.provider import OnnxruntimeProvider
        from ort_py_onnxruntime.settings import settings_of_general

        return OnnxruntimeProvider(GENERAL, settings_of_general(options, context.threads))


def _described(device: Any) -> Hardware:
    kind = DeviceClass[device.type.name]
    return Hardware(kind, device.vendor, device.vendor_id, device.device_id, dict(device.metadata))


def _unusable(advice: str) -> Availability | None:
    """Why no onnxruntime can be used at all, or None."""
    from ort_py_onnxruntime.installed import find

    build = find().build
    if build is None:
        return Availability(False, "there is no package onnxruntime", advice)
    if len(build.claimed_by) > 1:
        names = ", ".join(build.claimed_by)
        return Availability(
            False,
            f"several variants of onnxruntime wrote to {build.folder}, each over the files of the others: {names}",
            f"pip uninstall {' '.join(build.claimed_by)}, then pip install the one that you want: the files that are "
            f"there now say {build.distribution}, and uninstalling any of them removes files of all",
        )
    return None


_FACTORIES = (GeneralFactory(), *(BridgeFactory(name, route) for name, route in ROUTES.items()))


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """The hook: all factories."""
    return _FACTORIES
