"""Finding, ordering and creating execution providers.

Comes after `contracts` and `hooks`, before every room that needs a provider. It does not depend on models and, except
for the table `known_names`, on vendors. In the order in which a question travels:

* `entry_points`: what is installed, from metadata alone; `records` holds what is known about each provider.
* `loading`, `probing`: import a light plug-in in a guard, find its factory, ask whether it is usable here.
* `catalog`: all of that, once a process, on demand; `listing`: the user's questions to it.
* `request`, `options`, `environment`: what the user asks for, checked.
* `records`, `selection`, `refusals`: which providers a session gets, in which order, and why not others.
* `instances`: create and close them for one session.
"""

from typing import TYPE_CHECKING

from ort_py.discovery.catalog import ProviderCatalog, default_catalog
from ort_py.discovery.environment import strictness
from ort_py.discovery.fallback_record import FallbackKind, FallbackRecord
from ort_py.discovery.instances import ProviderInstances, create_instances
from ort_py.discovery.known_names import KNOWN_PROVIDERS
from ort_py.discovery.options import CheckedOptions, check_options
from ort_py.discovery.records import CPU_ROLE, ProviderRecord, RecordState, ranked
from ort_py.discovery.request import ProviderRequest, parse_request
from ort_py.discovery.selection import Origin, Selected, Selection, select_providers
from ort_py.lazy_names import lazy_names

if TYPE_CHECKING:
    from ort_py.discovery.listing import (
        get_all_providers,
        get_available_providers,
        get_installed_providers,
        get_provider_records,
        register_provider,
    )
else:  # sessions do not ask what is installed
    _LISTING = (
        "get_all_providers get_available_providers get_installed_providers get_provider_records register_provider"
    )
    __getattr__, __dir__, _ = lazy_names(globals(), {"ort_py.discovery.listing": _LISTING})

__all__ = [
    "CPU_ROLE",
    "KNOWN_PROVIDERS",
    "CheckedOptions",
    "FallbackKind",
    "FallbackRecord",
    "Origin",
    "ProviderCatalog",
    "ProviderInstances",
    "ProviderRecord",
    "ProviderRequest",
    "RecordState",
    "Selected",
    "Selection",
    "check_options",
    "create_instances",
    "default_catalog",
    "get_all_providers",
    "get_available_providers",
    "get_installed_providers",
    "get_provider_records",
    "parse_request",
    "ranked",
    "register_provider",
    "select_providers",
    "strictness",
]
