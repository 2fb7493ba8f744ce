"""Check the English of docstrings and pages: `python scripts/prose.py [--list] [--counts] [FILE ...]`.

The script counts, room by room, docstrings that do not begin with a verb or a noun phrase and docstrings with words
that this project does not use, and fails where their share exceeds the limits below. Well-kept libraries (onnx_ir,
pluggy, zarr, httpx) stay within the same limits. Comments must not contain such words at all. proselint, configured in
`.proselintrc.json`, then looks for archaisms, clichés, repeated words and the like in the docstrings and the pages.

`--counts` prints the table of rooms, `--list` prints each docstring and comment that counts. With files, only proselint
runs, on these files. Nothing here needs the network.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proselint.checks import __register__
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT = Path(__file__).resolve().parent.parent

OPENINGS = re.compile(r"(?:What|Which|Of|As|Who|Whoever|How)\b|Where (?=[^,.:]*[.:])")
"""First words of docstrings that are clauses instead of sentences or noun phrases."""

WORDS = re.compile(
    r"\b(?:told|nobody|shall|anew)\b"
    r"|(?<!here )(?<!here\n)\b(?:is|are|was|were) no (?!longer|more|better|worse|larger|smaller|faster|slower)"
    r"|\b(?:has|have) not (?:the|a|an|its|that|this|such|any)\b",
    re.IGNORECASE,
)
"""Words that make a sentence archaic or leave out who acts."""

LIMITS = {"sources": (0.3, 0.5), "tests": (0.3, 0.5)}
"""Largest share, in percent, of docstrings with such an opening and with such a word."""

_GENERATED = ("docs/plugin-author/reference.md", "docs/operators.md", "docs/models.md")
_CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`", re.DOTALL)
_CODE_OF_PAGES = re.compile(_CODE.pattern + r"|^(?: {4,}|#).*?$|\]\([^)\n]*\)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Docstring:
    """A docstring or a comment, and its place.

    Attributes:
        file: Path of the module, relative to the root of the repository.
        line: Line of the opening quotes.
        text: Content, with the indentation removed.
    """

    file: Path
    line: int
    text: str

    @property
    def kind(self) -> str:
        """``"tests"`` or ``"sources"``."""
        return "tests" if "tests" in self.file.parts else "sources"

    @property
    def room(self) -> str:
        """Folder that the counts are summed over."""
        parts = self.file.parts[:-1]
        if parts[:3] == ("core", "src", "ort_py"):
            return "/".join(("core", *parts[3:4]))
        if parts[:1] == ("core",):
            return "core/tests"
        if parts[:1] == ("providers",):
            return "/".join((*parts[:2], *(("tests",) if "tests" in parts else ())))
        return parts[0] if parts else "."


def docstrings(file: Path) -> Iterator[Docstring]:
    """Read the docstrings of a module, of its classes and of its functions."""
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield Docstring(file.relative_to(ROOT), node.body[0].lineno, text)


def comments(file: Path) -> Iterator[Docstring]:
    """Read the comments of a module, consecutive lines as one."""
    text, first, last = "", 0, 0
    with file.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type != tokenize.COMMENT:
                continue
            if text and token.start[0] != last + 1:
                yield Docstring(file.relative_to(ROOT), first, text)
                text = ""
            if not text:
                first = token.start[0]
            text, last = f"{text} {token.string.lstrip('# ')}".strip(), token.start[0]
    if text:
        yield Docstring(file.relative_to(ROOT), first, text)


def faults(text: str) -> tuple[bool, bool]:
    """Whether a docstring has an opening and a word that count."""
    return OPENINGS.match(text) is not None, WORDS.search(text) is not None


def table(found: list[Docstring]) -> list[str]:
    """Format the counts of each room, one line per room."""
    total, openings, words = Counter[str](), Counter[str](), Counter[str]()
    for one in found:
        for name in (one.room, f"all {one.kind}"):
            total[name] += 1
            openings[name] += faults(one.text)[0]
            words[name] += faults(one.text)[1]
    names = sorted(total, key=lambda name: (name.startswith("all "), name))
    return [
        f"{name:28}{total[name]:6} docstrings{openings[name]:6} openings ({100 * openings[name] / total[name]:4.1f} %)"
        f"{words[name]:6} with words ({100 * words[name] / total[name]:4.1f} %)"
        for name in names
    ]


def beyond_limits(found: list[Docstring]) -> list[str]:
    """Describe each limit that is exceeded."""
    problems = []
    for kind, limits in LIMITS.items():
        these = [faults(one.text) for one in found if one.kind == kind]
        for index, name in enumerate(("openings", "words")):
            share = 100 * sum(one[index] for one in these) / max(len(these), 1)
            if share > limits[index]:
                problems.append(f"{kind}: {share:.2f} % of docstrings have such {name}; the limit is {limits[index]} %")
    return problems


@dataclass(frozen=True)
class Text:
    """A piece of prose and its place.

    Attributes:
        file: Name of the file, for messages.
        line: Line of the file at which the text begins.
        content: The text, with code left out.
    """

    file: str
    line: int
    content: str


def lint(texts: list[Text]) -> list[str]:
    """Run proselint on all texts at once, since it spends most of its time on preparing itself.

    Returns:
        One message per finding, with its position.
    """
    registry = CheckRegistry()
    if not registry.checks:
        registry.register_many(__register__)
    settings = json.loads((ROOT / ".proselintrc.json").read_text(encoding="utf-8"))
    joined, places = list[str](), [("", 0)]  # proselint puts an empty line in front
    for text in texts:
        lines = text.content.splitlines()
        joined += [*lines, "", "***", ""]
        places += [(text.file, text.line + index) for index in range(len(lines) + 3)]
    problems, whole = [], "\n".join(joined)
    for found in LintFile("prose", whole).lint(settings):
        behind = found.check_result.span[1] - 1
        if whole[behind - 1 : behind + 1].isalpha():
            continue  # part of a word: proselint finds "for ever" in "for every"
        file, line = places[found.pos[0]]
        message = " ".join(found.check_result.message.split())
        problems.append(f"{file}:{line}: {message} ({found.check_result.check_path})")
    return problems


def _blank(match: re.Match[str]) -> str:
    """Replace code by an ellipsis and as many line breaks, so that positions stay right."""
    return "…" + "\n" * match.group().count("\n")


def texts_of(file: Path) -> list[Text]:
    """Read the prose of a Python module or a Markdown page. Generated pages have none of their own."""
    name = str(file.relative_to(ROOT))
    if file.suffix == ".py":
        return [Text(name, one.line, _CODE.sub(_blank, one.text)) for one in docstrings(file)]
    if file.suffix == ".md" and name not in _GENERATED:
        return [Text(name, 1, _CODE_OF_PAGES.sub(_blank, file.read_text(encoding="utf-8")))]
    return []


def _tracked(*patterns: str) -> list[Path]:
    """List files that git tracks."""
    command = ["git", "ls-files", "-z", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).exists()]


def main(arguments: list[str]) -> int:
    """Print what is asked for and every problem. Returns 1 if there is a problem."""
    named = [Path(argument).resolve() for argument in arguments if not argument.startswith("--")]
    problems = lint([text for file in named or _tracked("*.py", "*.md") for text in texts_of(file)])
    if not named:
        found = [one for file in _tracked("*.py") for one in docstrings(file)]
        worded = [one for file in _tracked("*.py") for one in comments(file) if WORDS.search(one.text)]
        if "--counts" in arguments:
            print("\n".join(table(found)))
        if "--list" in arguments:
            for one in [*(one for one in found if any(faults(one.text))), *worded]:
                print(f"{one.file}:{one.line}: {one.text.splitlines()[0]}")
        problems += beyond_limits(found)
        problems += [f"{one.file}:{one.line}: the comment has a word that docstrings avoid" for one in worded]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
