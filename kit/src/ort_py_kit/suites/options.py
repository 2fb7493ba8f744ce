"""A provider's options: declared so that they can be checked, and each usable as users write it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ort_py.contracts import OptionSpec, SessionContext
from ort_py.discovery.known_names import KNOWN_OPTIONS
from ort_py.errors import OptionError
from ort_py_kit.subject import Subject
from ort_py_kit.suites.base import ProviderChecks, fail

_KINDS = (str, int, float, bool)


class OptionChecks(ProviderChecks):
    """The option schema, and what happens with values of each kind."""

    def test_its_options_are_declared_rightly(self, usable: Subject) -> None:
        """Every option has a name, a kind, a default of that kind among the choices, and a sentence of help."""
        schema = usable.factory().option_schema
        problems = [
            f"'{name}' is declared {count} times" for name, count in Counter(_names(schema)).items() if count > 1
        ]
        for option in schema:
            problems += [f"'{option.name}' {problem}" for problem in _problems(option)]
        if problems:
            fail(
                f"The option schema of {usable.name} has mistakes: users' values cannot be checked by it.",
                problems,
                fix="correct the OptionSpecs.",
            )

    def test_its_defaults_can_be_written(self, usable: Subject) -> None:
        """Each default, and each choice, comes back where it is given as text, as onnxruntime's users give it."""
        problems = []
        for option in usable.factory().option_schema:
            for value in (option.default, *option.choices):
                if value is None:
                    continue
                try:
                    read = usable.read_options({option.name: str(value)}, [option])[option.name]
                except OptionError as error:
                    problems.append(f"'{option.name}': {value!r} as text is refused: {'; '.join(error.why)}")
                    continue
                if read != value:
                    problems.append(f"'{option.name}': {value!r} as text is read as {read!r}")
        if problems:
            fail(f"Options of {usable.name} cannot be given as text.", problems, fix="correct kinds and choices.")

    def test_it_is_made_with_its_defaults(self, usable: Subject) -> None:
        """A provider can be created with every option at its default, bears its name, and is closed."""
        factory = usable.factory()
        provider = factory.create(usable.read_options({}), SessionContext())
        try:
            if provider.name != usable.name:
                fail(
                    f"The provider made by {usable.name}'s factory calls itself {provider.name!r}.",
                    fix="return the factory's name: placements and reports are kept by it.",
                )
            problems = [
                f"precision_refusal({precision!r}) is {reason!r}"
                for precision in ("float32", "bfloat16", "float16")
                if not isinstance(reason := provider.precision_refusal(precision), str | None)
            ]
            if problems:
                fail("Refusals of a precision are sentences or None.", problems, fix="correct precision_refusal.")
        finally:
            provider.close()

    def test_a_misspelt_option_is_refused(self, usable: Subject) -> None:
        """Names that are nearly those of options are met with "did you mean", so no name may be so short that it is
        not recognised."""
        problems = []
        names = set(_names(usable.factory().option_schema))
        for name in sorted(one for one in names if len(one) > 3):
            if (misspelt := f"{name[:-2]}{name[-1]}{name[-2]}") in names or misspelt == name:
                continue
            try:
                usable.read_options({misspelt: "1"})
            except OptionError:
                continue
            except Warning as warning:
                problems.append(f"'{misspelt}' for '{name}' is no error: {warning}")
        if problems:
            fail("Misspelt options are not found out.", problems, fix="choose names in words of several letters.")


def _names(schema: Any) -> list[str]:
    return [str(option.name) for option in schema]


def _problems(option: OptionSpec) -> list[str]:
    found = []
    if not option.name.isidentifier() or (option.name != option.name.lower() and option.name not in KNOWN_OPTIONS):
        found.append("is neither a lower-case name of letters, digits and underscores nor one of onnxruntime's")
    if option.kind not in _KINDS:
        found.append(f"is of kind {option.kind!r}, not one of {', '.join(kind.__name__ for kind in _KINDS)}")
    elif option.default is not None and type(option.default) is not option.kind:
        found.append(f"has the default {option.default!r}, which is not a {option.kind.__name__}")
    if option.choices and option.default is not None and option.default not in option.choices:
        found.append(f"has the default {option.default!r}, which is not among its choices")
    if not option.help.strip():
        found.append("has no help")
    return found
