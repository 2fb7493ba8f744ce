"""Feeds of a run: from files named on the command line, the rest made up from what the model declares."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from ort_py import NodeArg
from ort_py.cli.console import tell
from ort_py.cli.pictures import EXTENSIONS, LAYOUTS, PictureOptions, read_picture
from ort_py.dtypes import TensorType, numpy_dtype, parse_value_type
from ort_py.errors import InvalidArgument, Location, NoSuchFile
from ort_py.inspection.generated_inputs import MODES, InputRecipe, generate
from ort_py.lazy_dataclass import dataclass
from ort_py.suggestions import did_you_mean


@dataclass(slots=True)
class Feeds:
    """Inputs of a run.

    Attributes:
        assumed: Assumptions about the shapes of made-up inputs, by name.
    """

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    assumed: dict[str, str] = field(default_factory=dict)


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what is fed."""
    group = parser.add_argument_group("inputs")
    group.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="feed an input from a .npy, .npz or picture; NAME may be left out where the model has one input, and"
        " for a .npz, whose arrays are named like the inputs; may be repeated",
    )
    group.add_argument(
        "--generate",
        choices=MODES,
        help="generate the inputs that no file provides (default: random, if there is no --input)",
    )
    group.add_argument("--seed", type=int, default=0, help="seed of random inputs (default: %(default)s)")
    group.add_argument(
        "--dim",
        action="append",
        default=[],
        type=_dim,
        metavar="NAME=SIZE",
        help="size of a symbolic dimension of generated inputs (default: 1); may be repeated",
    )
    group.add_argument(
        "--shape",
        action="append",
        default=[],
        type=_shape,
        metavar="NAME=1x3x224x224",
        help="whole shape of a generated input; may be repeated",
    )
    pictures = parser.add_argument_group("pictures")
    pictures.add_argument("--size", type=_size, metavar="HxW", help="resize to this instead of the declared size")
    pictures.add_argument(
        "--layout", choices=LAYOUTS, help="order of the axes, if the declared shape does not determine it"
    )
    pictures.add_argument("--scale", choices=("0-1", "0-255"), help="range of values (default: 0-1 for floats)")
    pictures.add_argument("--mean", type=_numbers, default=(), metavar="A,B,C", help="subtracted after scaling")
    pictures.add_argument("--std", type=_numbers, default=(), metavar="A,B,C", help="divided by, after that")


def make_feeds(declared: Sequence[NodeArg], overridable: Sequence[NodeArg], arguments: argparse.Namespace) -> Feeds:
    """Make the feeds that the arguments of `add_input_arguments` describe. Prints a note about sizes it assumes.

    Args:
        overridable: Initializers that may be fed too.

    Raises:
        OrtPyError: A file cannot be read, or fits no input.
    """
    known = {argument.name: argument for argument in (*declared, *overridable)}
    pictures = PictureOptions(arguments.size, arguments.layout, arguments.scale, arguments.mean, arguments.std)
    feeds = Feeds()
    for text in arguments.input:
        _read_into(feeds, text, known, [argument.name for argument in declared], pictures)
    mode = arguments.generate or ("random" if not arguments.input else None)
    if mode is not None:
        recipe = InputRecipe(mode, arguments.seed, dict(arguments.dim), dict(arguments.shape))
        _check_names(recipe, declared)
        for argument in declared:
            if argument.name not in feeds.values:
                made = generate(argument, recipe)
                feeds.values[argument.name] = made.value
                feeds.sources[argument.name] = f"{mode} values"
                if made.assumed:
                    feeds.assumed[argument.name] = made.assumed
    if feeds.assumed:
        shapes = "; ".join(f"'{name}' is generated {text}" for name, text in feeds.assumed.items())
        tell(f"note: {shapes}. Set sizes with --dim NAME=SIZE or --shape NAME=1x2x3.")
    return feeds


def _read_into(
    feeds: Feeds, text: str, known: Mapping[str, NodeArg], required: Sequence[str], pictures: PictureOptions
) -> None:
    name, given, file = text.partition("=")
    if not given:
        name, file = "", text
    path = Path(file)
    if not path.is_file():
        raise NoSuchFile(
            f"The input file '{file}' does not exist." if not path.exists() else f"'{file}' is not a file.",
            where=Location(value=name, file=file),
            fix="Check the path given to --input.",
        )
    if path.suffix.lower() == ".npz":
        arrays = _load(path)
        chosen = {name: _member(arrays, name, path)} if name else arrays
        for key, array in chosen.items():
            feeds.values[key] = _typed(array, known.get(key))
            feeds.sources[key] = file
        return
    if not name:
        if len(required) != 1:
            raise InvalidArgument(
                f"It is not clear which input '{file}' is for: the model has {len(required)} inputs.",
                why=f"its inputs are {', '.join(map(repr, required)) or 'none'}",
                fix=f"Write --input NAME={file}.",
            )
        name = required[0]
    argument = known.get(name)
    if path.suffix.lower() in EXTENSIONS:
        if argument is None:
            raise _unknown(name, known, f"--input {text}")
        feeds.values[name] = read_picture(path, argument, pictures)
    else:
        # A name the model does not have is the session's to refuse: it says what the inputs are.
        feeds.values[name] = _typed(_load(path), argument)
    feeds.sources[name] = file


def _load(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            # Pickles run code, so they are not read.
            loaded = np.load(file, allow_pickle=False)
            return {key: loaded[key] for key in loaded.files} if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidArgument(
            f"'{path}' cannot be read as an array.",
            where=Location(file=str(path)),
            why=str(error),
            fix="Write it with numpy.save or numpy.savez; texts as an array of dtype 'U', not of objects.",
        ) from error


def _member(arrays: Any, name: str, path: Path) -> Any:
    if not isinstance(arrays, dict) or name not in arrays:
        raise InvalidArgument(
            f"'{path}' has no array '{name}'.",
            where=Location(value=name, file=str(path)),
            why=f"it has {', '.join(map(repr, arrays)) or 'none'}" if isinstance(arrays, dict) else "",
            fix="Use one of its names, or save the array under the input's name.",
        )
    return arrays[name]


def _typed(array: Any, argument: NodeArg | None) -> Any:
    """Arrays of types that NumPy lacks are saved as raw bytes; the declared type says what they are."""
    if argument is None or not isinstance(array, np.ndarray) or array.dtype.kind != "V":
        return array
    declared = parse_value_type(argument.type)
    if isinstance(declared, TensorType):
        dtype = numpy_dtype(declared.data_type)
        if dtype.itemsize == array.dtype.itemsize and dtype.kind == "V":
            return array.view(dtype)
    return array


def _check_names(recipe: InputRecipe, declared: Sequence[NodeArg]) -> None:
    symbols = {dim for argument in declared for dim in argument.shape if isinstance(dim, str)}
    for name in recipe.dims:
        if name not in symbols:
            raise _unknown(name, symbols, f"--dim {name}=…", "symbolic dimension")
    names = {argument.name for argument in declared}
    for name in recipe.shapes:
        if name not in names:
            raise _unknown(name, names, f"--shape {name}=…")


def _unknown(name: str, known: Any, where: str, kind: str = "input") -> InvalidArgument:
    names = sorted(known)
    return InvalidArgument(
        f"The model has no {kind} '{name}'.",
        where=where,
        why=f"it has {', '.join(map(repr, names)) or 'none'}",
        fix=did_you_mean(name, names) or "`ort-py info MODEL` lists them.",
    )


def _dim(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=SIZE")
    return name, int(size)


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    parts = sizes.split("x") if sizes else []
    if not name or not all(part.isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=1x3x224x224")
    return name, tuple(map(int, parts))


def _size(text: str) -> tuple[int, int]:
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is not HEIGHTxWIDTH, e.g. 224x224")
    return int(parts[0]), int(parts[1])


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not numbers separated by commas") from None
