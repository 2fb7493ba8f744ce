"""SessionOptions and RunOptions: onnxruntime's attributes and defaults, checked when they are set.

A session copies its options; changing them later has no effect on it.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

from ort_py.api.enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from ort_py.errors import InvalidArgument, OptionError
from ort_py.limits import Limits
from ort_py.suggestions import did_you_mean

__all__ = ["RunOptions", "SessionOptions"]


class _CheckedOptions:
    """Attributes with a type each; anything else is refused by name."""

    __slots__ = ("_config", "_values")

    _DEFAULTS: ClassVar[dict[str, Any]]
    _TYPES: ClassVar[dict[str, tuple[type, ...]]]
    _CHOICES: ClassVar[dict[str, tuple[Any, ...]]] = {}

    def __init__(self) -> None:
        object.__setattr__(self, "_values", dict(self._DEFAULTS))
        object.__setattr__(self, "_config", {})

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "_values")
        if name in values:
            return values[name]
        raise AttributeError(self._unknown(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._DEFAULTS:
            raise AttributeError(self._unknown(name))
        allowed = self._TYPES[name]
        # bool is an int in Python, and a plain int is no enum: both are mistakes worth naming.
        wrong_bool = isinstance(value, bool) and bool not in allowed
        if not isinstance(value, allowed) or wrong_bool:
            expected = " or ".join(kind.__name__ for kind in allowed)
            raise TypeError(f"{type(self).__name__}.{name} takes {expected}, not {value!r} ({type(value).__name__}).")
        choices = self._CHOICES.get(name)
        if choices is not None and value not in choices:
            raise OptionError(
                f"{type(self).__name__}.{name} cannot be {value!r}.",
                why=f"allowed: {', '.join(map(repr, choices))}",
                fix="Use one of these.",
            )
        self._values[name] = value

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._DEFAULTS])

    def __repr__(self) -> str:
        changed = [f"{name}={value!r}" for name, value in self._values.items() if value != self._DEFAULTS[name]]
        changed += [f"{key!r}: {value!r}" for key, value in self._config.items()]
        return f"{type(self).__name__}({', '.join(changed)})"

    def copied(self) -> Self:
        """An independent copy."""
        twin = type(self)()
        twin._values.update(self._values)
        twin._config.update(self._config)
        return twin

    def __copy__(self) -> Self:
        return self.copied()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copied()

    def is_set(self, key: str) -> bool:
        """Whether a config entry is switched on: set, and not to ``"0"`` or ``""``."""
        return self._config.get(key, "0") not in ("", "0")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (type(self), dict(self._values), dict(self._config)))

    def _unknown(self, name: str) -> str:
        return f"{type(self).__name__} has no option '{name}'. {did_you_mean(name, self._DEFAULTS)}".rstrip()

    def _add_entry(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"Config entries are strings, not {key!r}: {value!r}.")
        if not key or len(key) > 1024:
            raise InvalidArgument(
                f"A config key has 1 to 1024 characters, this one has {len(key)}.",
                fix="Use a key of the documentation.",
            )
        self._config[key] = value

    def _get_entry(self, key: str) -> str:
        if key not in self._config:
            raise RuntimeError(f"There is no config entry '{key}'.")
        found: str = self._config[key]
        return found


def _restore(cls: type[_CheckedOptions], values: dict[str, Any], config: dict[str, str]) -> _CheckedOptions:
    options = cls()
    options._values.update(values)
    options._config.update(config)
    return options


_PATH = (str, os.PathLike)


class SessionOptions(_CheckedOptions):
    """Options of a session.

    Attributes of onnxruntime, with its defaults: `enable_cpu_mem_arena`, `enable_mem_pattern`, `enable_mem_reuse`,
    `enable_profiling`, `execution_mode`, `execution_order`, `graph_optimization_level`, `inter_op_num_threads`,
    `intra_op_num_threads` (0: decided by `ort_py`, see `session.threads`), `log_severity_level`,
    `log_verbosity_level`, `logid`, `optimized_model_filepath` (the graph as it was partitioned is written there),
    `profile_file_prefix`, `use_deterministic_compute` (told to the providers), `use_per_session_threads`.

    Accepted for compatibility, without effect on results or placement: the `enable_*mem*` options, `execution_order`,
    `execution_mode` and `inter_op_num_threads` (nodes run one after another), `use_per_session_threads` (there is one
    pool a process), and the log options (configure the loggers below ``ort_py`` with `logging`).

    Own attributes:

    * `limits`: bounds for untrusted models, `ort_py.Limits()` by default.
    * `precision`: ``"float32"``, ``"bfloat16"`` or ``"float16"``: what providers may compute float32 models in.
    * `strict`: ``""``, ``"provider"`` or ``"node"``; None leaves it to the environment variable ``ORT_PY_STRICT``.
    * `pin_cpu`: the CPU role is filled by the plain NumPy provider only.
    * `disabled_transforms`: names of graph transforms that are not run.
    * `cost_model`: ``"transfer"`` keeps only islands that pay, ``"always"`` keeps all.
    * `cache_dir`: folder for compiled artifacts, ``""`` for none.
    * `external_data_folder`: where external data of a model given as bytes lies.

    `without_effect` names those of onnxruntime that were set and change nothing, its config entries included; the
    session's load report does too.
    """

    _IN_USE: ClassVar[frozenset[str]] = frozenset(
        {
            "enable_profiling",
            "graph_optimization_level",
            "intra_op_num_threads",
            "optimized_model_filepath",
            "profile_file_prefix",
            "use_deterministic_compute",
            "limits",
            "precision",
            "strict",
            "pin_cpu",
            "disabled_transforms",
            "cost_model",
            "cache_dir",
            "external_data_folder",
            "session.plugin_kernels_override",
        }
    )

    _DEFAULTS: ClassVar[dict[str, Any]] = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
        "limits": Limits(),
        "precision": "float32",
        "strict": None,
        "pin_cpu": False,
        "disabled_transforms": (),
        "cost_model": "transfer",
        "cache_dir": "",
        "external_data_folder": "",
    }
    _TYPES: ClassVar[dict[str, tuple[type, ...]]] = {
        "enable_cpu_mem_arena": (bool,),
        "enable_mem_pattern": (bool,),
        "enable_mem_reuse": (bool,),
        "enable_profiling": (bool,),
        "execution_mode": (ExecutionMode,),
        "execution_order": (ExecutionOrder,),
        "graph_optimization_level": (GraphOptimizationLevel,),
        "inter_op_num_threads": (int,),
        "intra_op_num_threads": (int,),
        "log_severity_level": (int,),
        "log_verbosity_level": (int,),
        "logid": (str,),
        "optimized_model_filepath": _PATH,
        "profile_file_prefix": (*_PATH, bytes),
        "use_deterministic_compute": (bool,),
        "use_per_session_threads": (bool,),
        "limits": (Limits,),
        "precision": (str,),
        "strict": (str, type(None)),
        "pin_cpu": (bool,),
        "disabled_transforms": (tuple, list, set, frozenset),
        "cost_model": (str,),
        "cache_dir": _PATH,
        "external_data_folder": _PATH,
    }
    _CHOICES: ClassVar[dict[str, tuple[Any, ...]]] = {
        "precision": ("float32", "bfloat16", "float16"),
        "strict": (None, "", "provider", "node"),
        "cost_model": ("transfer", "always"),
    }

    def without_effect(self) -> list[str]:
        """Options and config entries that were set and change nothing here: onnxruntime has them, ort-py does not."""
        changed = [name for name, value in self._values.items() if value != self._DEFAULTS[name]]
        return [name for name in (*changed, *self._config) if name not in self._IN_USE]

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set a config entry by onnxruntime's key.

        Raises:
            TypeError: Key or value is no string.
            InvalidArgument: The key is empty or longer than 1024 characters.
        """
        self._add_entry(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """A config entry.

        Raises:
            RuntimeError: It was never set; onnxruntime raises the same.
        """
        return self._get_entry(key)


class RunOptions(_CheckedOptions):
    """Options of one run: `log_severity_level`, `log_verbosity_level`, `logid`, `only_execute_path_to_fetches`,
    `terminate`. Setting `terminate` from another thread stops the run between two steps; the others have no effect."""

    _DEFAULTS: ClassVar[dict[str, Any]] = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }
    _TYPES: ClassVar[dict[str, tuple[type, ...]]] = {
        "log_severity_level": (int,),
        "log_verbosity_level": (int,),
        "logid": (str,),
        "only_execute_path_to_fetches": (bool,),
        "terminate": (bool,),
    }

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Set a config entry of the run.

        Raises:
            TypeError: Key or value is no string.
            InvalidArgument: The key is empty or longer than 1024 characters.
        """
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """A config entry.

        Raises:
            RuntimeError: It was never set.
        """
        return self._get_entry(key)
