"""Write the generated parts of README.md and docs/*.md. `make docs` runs this.

    python docs/make_docs.py

A part stands between `<!-- made by docs/make_docs.py: NAME -->` and `<!-- end: NAME -->`. Commands and the API come
from the code, tables from the figures in docs/*.json and docs/results/. Nothing is measured here: docs/measure_kept.py,
docs/measure_collections.py, benchmarks/speed.py and `dpbart experiment run` do that.
"""

from __future__ import annotations

import ast
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner
from pydantic_core import PydanticUndefined

import dpbart
from dpbart.card.card import schema
from dpbart.cli import cli
from dpbart.evaluate.experiment.results import paper_tables, read_results
from dpbart.options.declare import Record, leaves
from dpbart.progress import duration

REPOSITORY = Path(__file__).parent.parent
DOCS = REPOSITORY / "docs"
Cells = dict[str, dict[str, object]]  # figures by "MODEL EPSILON"


def read_cells(file: str) -> Cells:
    cells: Cells = json.loads((DOCS / file).read_text())
    return cells


def rows_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


# --- the code model: code.md and README.md ---

CODE = "mini-code"
PAPERS = "mini-pr-plus"  # the paper's best model
HEADLINE = (10, 20, 35, 50, 70, 100)
SHOWN = (  # the figures of a cell, and how a table shows them
    ("bleu", "BLEU", "{:.1f}"),
    ("content_words", "content words kept", "{:.2f}"),
    ("exact", "word for word the same", "{:.2f}"),
    ("similarity", "similarity to the original", "{:.2f}"),
    ("unrelated", "the same, to other originals (control)", "{:.2f}"),
    ("bits", "bits that can get through", "{:.1f}"),
)
CODE_SAMPLES = (  # made up for this page
    "I saw my doctor in Leeds on Tuesday about my knee.",
    "The battery of this phone is dead after two hours.",
    "My son has been ill since we came back from the lake.",
    "Please remind me to call the bank before noon.",
    "I loved this book, but the ending was a disappointment.",
    "I am writing about my stay on your ward last week. The nurses were kind and always came quickly when I rang. "
    "The food, on the other hand, was cold every evening, and nobody could tell me why. My knee still hurts at night, "
    "although the doctor said that the operation went well. I have been doing the exercises twice a day. Could you "
    "please tell me when I may drive again? My daughter has to bring me to every appointment, and she lives an hour "
    "away. Last of all, I was charged for a single room that I never had.",
)


def code_table() -> str:
    """Every budget that was measured."""
    budgets = sorted(float(name.rpartition(" ")[2]) for name in read_cells("code.json"))
    return rows_of(["epsilon", *(f"{epsilon:g}" for epsilon in budgets)], [_code_row(budgets, *each) for each in SHOWN])


def code_headline() -> str:
    """A few budgets, with the paper's best model below."""
    theirs = [read_cells("models.json").get(f"{PAPERS} {epsilon}", {}).get("bleu") for epsilon in HEADLINE]
    scores = ["" if each is None else f"{each:.1f}" for each in theirs]
    rows = [_code_row(HEADLINE, *each) for each in SHOWN[:4]]
    return rows_of(["epsilon", *map(str, HEADLINE)], [*rows, [f"BLEU of `{PAPERS}` (delta 1e-5)", *scores]])


def _code_row(budgets: Sequence[float], figure: str, name: str, form: str) -> list[str]:
    cells = read_cells("code.json")
    held = [cells.get(f"{CODE} {epsilon:g}", {}).get(figure) for epsilon in budgets]
    return [name, *("" if each is None else form.format(each) for each in held)]


def code_samples(numbers: Sequence[int] = range(len(CODE_SAMPLES))) -> str:
    """Some samples at falling budgets."""
    cells, rows = read_cells("code.json"), []
    for number in numbers:
        rows.append(["original", CODE_SAMPLES[number]])
        for epsilon in reversed(HEADLINE):
            written = list(cells[f"{CODE} {epsilon}"]["samples"])[number]  # type: ignore[call-overload]
            rows.append([str(epsilon), written.replace("|", "/")])
        rows.append(["", ""])
    return rows_of(["epsilon", "text"], rows[:-1]).replace("|  |  |", "| | |")


# --- the models with a latent: models.md ---

EPSILONS = (10, 50, 100, 250, 500, 750, 1000, 2500, math.inf)
OWN_BUDGET = "PR+ trained for that budget"
SURPRISED = "mini-pr-plus"  # the model in the table on the limit
LATENT_SAMPLES = (  # made up for this page
    "Could you book a table for four at the Italian place tonight?",
    "My doctor said that the new tablets may cause headaches.",
    "The train to Vienna leaves at nine in the morning.",
    "I loved this book, but the ending was a disappointment.",
    "Play some quiet jazz in the kitchen, please.",
)


def models_table(figure: str) -> str:
    """One figure by model and budget."""
    cells = {**read_cells("models.json"), **read_cells("code.json")}
    rows = []
    for name in _models(cells):
        measured = [cells.get(f"{name} {epsilon:g}", {}) for epsilon in EPSILONS]
        texts = sorted({int(str(cell["texts"])) for cell in measured if cell})
        counts = " to ".join(f"{count:,}" for count in (texts[0], *texts[1:][-1:]))
        rows.append([name, counts, *(str(cell.get(figure, "")) for cell in measured)])
    return rows_of(["model", "texts", *map(_budget, EPSILONS)], rows)


def limit_table() -> str:
    """How many of the bits that the channel can carry arrive: the fall in bits still needed."""
    cells = {epsilon: read_cells("models.json")[f"{SURPRISED} {epsilon:g}"] for epsilon in EPSILONS}
    needed = {epsilon: float(str(cell["surprise"])) for epsilon, cell in cells.items()}
    head = ["epsilon", "the channel carries at most", "bits still needed to write a text", "bits arrived"]
    return rows_of(
        head,
        [
            [_budget(e), str(cells[e]["bits"] or "∞"), f"{needed[e]:.1f}", f"{needed[EPSILONS[0]] - needed[e]:.1f}"]
            for e in EPSILONS
        ],
    )


def latent_samples() -> str:
    cells = read_cells("models.json")
    names = [name for name in _models(cells) if name != OWN_BUDGET]
    parts = []
    for number, sample in enumerate(LATENT_SAMPLES):
        rows = []
        for epsilon in EPSILONS:
            written = [str(list(cells[f"{name} {epsilon:g}"]["samples"])[number]) for name in names]  # type: ignore[call-overload]
            rows.append([_budget(epsilon), *(text.replace("|", "\\|") for text in written)])
        parts.append(f"**{sample}**\n\n{rows_of(['epsilon', *names], rows)}")
    return "\n\n".join(parts)


def _models(cells: Cells) -> list[str]:
    """Models, in the order of their first measurement."""
    return list(dict.fromkeys(name.rpartition(" ")[0] for name in cells))


def _budget(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:,}"


# --- the experiments: results.md ---

ORIGINAL = 0.0  # in place of a budget: no rewriting
BUDGETS = (ORIGINAL, math.inf, 2500.0, 1000.0, 750.0, 500.0, 250.0, 100.0, 50.0, 10.0)
# Macro F1 of PR+ in Igamberdiev and Habernal 2023, as far as we know it; their F1 on ATIS is a mean over batches.
PAPER = {
    "snips": {ORIGINAL: 0.98, 2500: 0.85, 1000: 0.80, 500: 0.65, 250: 0.60, 100: 0.05, 50: 0.05, 10: 0.05},
    "atis": {ORIGINAL: 0.89, 2500: 0.13, 1000: 0.13, 500: 0.08, 250: 0.08, 100: 0.06, 50: 0.06, 10: 0.07},
    "imdb": {ORIGINAL: 0.72, 2500: 0.63, 1000: 0.60, 500: 0.53, 250: 0.55, 100: 0.38, 50: 0.40, 10: 0.41},
    "amazon_hatn30k": {ORIGINAL: 0.91, 2500: 0.87, 1000: 0.85, 500: 0.83, 250: 0.82, 100: 0.33, 50: 0.33, 10: 0.33},
}


def beside_the_paper() -> str:
    """PR+ with Gaussian noise and the linear classifier: two lines for each data set."""
    results, rows = read_results(DOCS / "results"), []
    for data, paper in PAPER.items():
        ours = {
            each.epsilon or ORIGINAL: each.f1_mean
            for each in results
            if (each.data, each.classifier) == (data, "linear")
            and each.model in (PAPERS, None)
            and each.mechanism != "laplace"
        }
        for name, scores in (("the paper", paper), ("here", ours)):
            shown = [f"{scores[budget]:.2f}" if scores.get(budget) is not None else "" for budget in BUDGETS]
            rows.append([data, name, *shown])
    return rows_of(["data", "F1 of PR+", "original", "∞", *(f"{b:,g}" for b in BUDGETS[2:])], rows)


def experiment_tables() -> str:
    """One table for each data set and classifier."""
    return "\n".join(grid.as_markdown() for grid in paper_tables(read_results(DOCS / "results"))).strip()


# --- the help of every command: commands.md ---


def commands() -> str:
    parts = []
    for path in [(), *_paths(cli)]:
        shown = CliRunner().invoke(cli, [*path, "--help"], prog_name="dpbart", terminal_width=100)
        parts.append(f"## {' '.join(('dpbart', *path))}\n\n```text\n{shown.output.rstrip()}\n```")
    return "\n\n".join(parts)


def _paths(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in sorted(group.commands):
        _, command, _ = group.resolve_command(click.Context(group), [name])
        yield (*above, name)
        if isinstance(command, click.Group):
            yield from _paths(command, (*above, name))


# --- the public names: api.md ---

ERRORS = [name for name in dpbart.__all__ if hasattr(dpbart.errors, name)]
NAMES = ["Rewriter", "Rewriting", "Guarantee", "rewrite_file", "Request", "Settings", "Card", "Ledger"]
NAMES += ["rewrite_frame", "batch_function"]
NAMES += ["synthesize_file", "synthesize_frame", "CollectionRequest", "CollectionBudget"]
NAMES += ["read_topics", "Topics"]
CONSTANTS = ["DEFAULT_MODEL", "__version__"]
WIDEST = 48  # characters of a default value


def api() -> str:
    """Every public name with its signature, the first paragraph of its docstring, and its example."""
    if {*NAMES, *ERRORS, *CONSTANTS} != set(dpbart.__all__):
        raise SystemExit("NAMES in docs/make_docs.py must list all of dpbart.__all__.")
    constants = rows_of(["constant", "value"], [[f"`{name}`", f"`{getattr(dpbart, name)!r}`"] for name in CONSTANTS])
    errors = ["DpbartError", *(name for name in ERRORS if name != "DpbartError")]
    return "\n\n".join(
        [
            *map(_entry, NAMES),
            "## Errors\n\nEach example raises its error.",
            *map(_entry, errors),
            f"## Constants\n\n{constants}",
        ]
    )


def example_of(name: str) -> str:
    """The example in a docstring: its doctest, or its first paragraph of code."""
    words = inspect.getdoc(getattr(dpbart, name)) or ""
    if ">>> " in words:
        lines = words[words.index(">>> ") :].split("\n\n")[0].splitlines()
        return "\n".join(lines)
    for paragraph in words.split("\n\n")[1:]:
        if "(" in paragraph and _is_code(inspect.cleandoc(paragraph)):
            return inspect.cleandoc(paragraph)
    raise SystemExit(f"The docstring of dpbart.{name} must have an example.")


def _is_code(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _entry(name: str) -> str:
    it = getattr(dpbart, name)
    first = " ".join((inspect.getdoc(it) or "").split("\n\n")[0].split())
    error = name in ERRORS
    parts = [f"### {name}" if error else f"## {name}"]
    if not error:
        parts.append(f"```python\n{_signature(name, it)}\n```")
    parts += [first, f"```python\n{example_of(name)}\n```"]
    if inspect.isclass(it) and not error:
        parts += _fields(it) + _methods(it)
    return "\n\n".join(parts)


def _signature(name: str, it: Callable[..., object]) -> str:
    """One parameter a line, if they do not fit into one."""
    if inspect.isclass(it) and issubclass(it, Record):
        shown = [_parameter(leaf.name, leaf.field.get_default(call_default_factory=True)) for leaf in leaves(it)]
        back = ""
    else:
        signature = inspect.signature(it)
        shown, star = [], False
        for each in signature.parameters.values():
            if each.kind is each.KEYWORD_ONLY and not star:
                shown.append("*")
                star = True
            shown.append(_parameter(each.name, each.default))
        back = "" if inspect.isclass(it) else f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(shown)}){back}"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(shown) + f",\n){back}"


def _parameter(name: str, default: object) -> str:
    if default is inspect.Parameter.empty or default is PydanticUndefined:
        return name
    value = repr(default).replace("'", '"')  # as ruff formats it
    return f"{name}=..." if len(value) > WIDEST or "<" in value or " at 0x" in value else f"{name}={value}"


def _fields(it: type) -> list[str]:
    """What each option of a record means, in the words of the command line."""
    if not issubclass(it, Record):
        return []
    return [rows_of(["option", "meaning"], [[f"`{leaf.name}`", leaf.help.replace("|", "\\|")] for leaf in leaves(it)])]


def _methods(it: type) -> list[str]:
    rows = []
    for name, member in vars(it).items():
        made = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        words = inspect.getdoc(made) if inspect.isfunction(made) or isinstance(made, property) else None
        if not name.startswith("_") and words:
            call = name if isinstance(made, property) else f"{name}({', '.join(_names(made))})"
            rows.append([f"`{call}`", " ".join(words.split("\n\n")[0].split())])
    return [rows_of(["member", "what it does"], rows)] if rows else []


def _names(function: Callable[..., object]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


# --- what a release teaches and tells: curator.md ---

NO_NOISE = math.inf
PEOPLE_TOLD = (500, 5_000)
COLLECTION_SETS = {"snips": (500, 4_000), "imdb": (4_000,), "amazon_hatn30k": (4_000,)}
_SET_NAMES = {"snips": "Snips", "imdb": "IMDb", "amazon_hatn30k": "Amazon"}
_CENTRAL, _LOCAL = (0.5, 1, 2, 4), (4, 6, 10)


def taught_table() -> str:
    """Macro F1, a row for each data set and number of people."""
    cells = read_cells("collections.json")
    head = ["people", "release", *(f"{epsilon:g}" for epsilon in _CENTRAL), "local 4", "6", "10"]
    rows = []
    for name, counts in COLLECTION_SETS.items():
        for people in counts:
            key = f"{name} {people}"
            rows += _of_kinds(f"{_SET_NAMES[name]}, {people:,}", cells, key, "{:.2f}")
    return rows_of(head, rows)


def bounds_table() -> str:
    """What bounds those figures: labels alone, the book without noise, and the original texts."""
    cells, rows = read_cells("collections.json"), []
    for name, counts in COLLECTION_SETS.items():
        for people in counts:
            ends = ("labels", f"collection {NO_NOISE:g}", "originals")
            rows.append(
                [
                    f"{_SET_NAMES[name]}, {people:,}",
                    *(f"{cells[f'{name} {people} {end}']['mean']:.2f}" for end in ends),
                ]
            )
    return rows_of(["people", "labels alone", "the book without noise", "original texts"], rows)


def told_table() -> str:
    """The error of the areas' shares."""
    cells, rows = read_cells("collections.json"), []
    for people in PEOPLE_TOLD:
        rows += _of_kinds(f"{people:,}", cells, f"areas {people}", "{:.3f}")
    return rows_of(["people", "release", *(f"{epsilon:g}" for epsilon in _CENTRAL), "local 4", "6", "10"], rows)


def _of_kinds(people: str, cells: Cells, key: str, form: str) -> list[list[str]]:
    """The rows of one number of people: central figures of two kinds, and local ones of single texts."""

    def shown(kind: str, epsilons: Sequence[float]) -> list[str]:
        return [form.format(cells[f"{key} {kind} {epsilon:g}"]["mean"]) for epsilon in epsilons]

    none = [""] * len(_LOCAL)
    return [
        [people, "collection", *shown("collection", _CENTRAL), *none],
        ["", "shuffled", *shown("shuffled", _CENTRAL), *none],
        ["", "single texts", *([""] * len(_CENTRAL)), *shown("single", _LOCAL)],
    ]


# --- what a classifier learns from single texts, and what survives of documents: code.md ---

TAUGHT = "taught.json"


@dataclass(frozen=True)
class Taught:
    """One row of the table: a data set, how many of its texts are rewritten, and at which budgets."""

    name: str
    file: str
    train: int
    epsilons: tuple[float, ...]
    areas: tuple[str, ...] = ()
    vectors: bool = False  # also try a classifier on sentence vectors


TAUGHT_SETS = (
    Taught("Snips", "snips", 2_000, (1, 2, 3, 4, 6, 8, 10, 20, 50)),
    Taught("Snips, `--areas assistants`", "snips", 2_000, (1, 2, 3, 4, 6, 8, 10, 20), ("assistants",)),
    Taught("ATIS", "atis", 4_000, (4, 10, 20, 50)),
    Taught("ATIS, `--areas assistants`", "atis", 4_000, (4, 10, 20), ("assistants",)),
    Taught("IMDb", "imdb", 1_000, (4, 10, 20, 50), vectors=True),
    Taught("Amazon", "amazon_hatn30k", 1_000, (4, 10, 20, 50), vectors=True),
)


def single_taught_table() -> str:
    """Macro F1 with its spread over draws, a row for each data set."""
    cells, rows = read_cells(TAUGHT), []
    budgets = sorted({epsilon for kind in TAUGHT_SETS for epsilon in kind.epsilons})
    for kind in TAUGHT_SETS:
        found = [cells.get(f"{kind.name} {epsilon:g}") for epsilon in budgets]
        shown = ["" if cell is None else f"{cell['mean']:.2f} ± {cell['deviation']:.2f}" for cell in found]
        rows.append([kind.name, *shown, f"{cells[f'{kind.name} originals']['mean']:.2f}"])
    return rows_of(["epsilon", *(f"{epsilon:g}" for epsilon in budgets), "originals"], rows)


def documents_table() -> str:
    """The similarity of whole documents, and of a document to the rewritings of others."""
    cells = read_cells(TAUGHT)
    found = {name.split()[1]: cell for name, cell in cells.items() if name.startswith("documents ")}
    rows = [
        [name, *(f"{cell[key]:.2f}" for cell in found.values())]
        for name, key in (("similarity to the original", "mean"), ("to other originals (control)", "unrelated"))
    ]
    return rows_of(["epsilon", *found], rows)


# --- how fast texts are rewritten: large.md ---

ROWS, CORES = (10_000, 1_000_000, 100_000_000), (2, 16, 1_000)


def _speed() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((DOCS / "speed.json").read_text())
    return figures


def speed_table() -> str:
    """Where and when it was measured, and the rates of one core."""
    speed = _speed()
    machine, head = speed["machine"], ["model", "epsilon", "texts a second, one core", "least and most", "system time"]
    rows = [
        [
            f"`{each['model']}`" + (", beam 10" if each["model"] == PAPERS else ""),
            f"{each['epsilon']:g}",
            f"{each['rate']:,.0f}",
            f"{each['least']:,.0f} to {each['most']:,.0f}",
            f"{each['system']:.0%}",
        ]
        for each in speed["rates"]
    ]
    others = [
        f"At epsilon {each['epsilon']:g}, two processes are {each['ratio']:.2f} times as fast as one."
        for each in speed["scaling"]
    ] + [
        f"At epsilon {each['epsilon']:g}, a run takes {each['one']:,.0f} MB with one worker and {each['four']:,.0f} MB "
        f"with four."
        for each in speed["memory"]
    ]
    where = (
        f"`python benchmarks/speed.py` at commit {speed['commit']} on {speed['date']}, on {machine['cores']} cores of "
        f"{machine['processor']}, Python {machine['python']} and numpy {machine['numpy']}:"
    )
    return "\n\n".join([where, rows_of(head, rows), " ".join(others)])


def duration_table() -> str:
    """How long files of some sizes take on some numbers of cores."""
    speed = _speed()
    added = min(each["ratio"] for each in speed["scaling"]) - 1  # by the second core
    rows = []
    for each in speed["rates"]:
        times = [
            [count / min(each["rate"] * (1 + added * (cores - 1)), speed["driver"]) for cores in CORES]
            for count in ROWS
        ]
        rows.append([f"`{each['model']}` at {each['epsilon']:g}", *(" / ".join(map(duration, row)) for row in times)])
    cores = " / ".join(f"{count:,}" for count in CORES)
    return rows_of([f"time on {cores} cores", *(f"{count:,} rows" for count in ROWS)], rows)


# --- the parts of all pages ---


@dataclass(frozen=True)
class Part:
    """What stands between two markers of a page."""

    page: str  # relative to the repository
    name: str
    make: Callable[[], str]

    def put_into(self, text: str) -> str:
        """The page with this part made again."""
        begin, end = f"<!-- made by docs/make_docs.py: {self.name} -->", f"<!-- end: {self.name} -->"
        pattern = re.escape(begin) + r".*?" + re.escape(end)
        if len(re.findall(pattern, text, re.DOTALL)) != 1:
            raise SystemExit(f"{self.page} must hold the markers of the part {self.name!r} once.")
        made = f"{begin}\n\n{self.make()}\n\n{end}"
        return re.sub(pattern, lambda _: made, text, flags=re.DOTALL)


PARTS = (
    Part("README.md", "samples", partial(code_samples, (1, 3, 5))),
    Part("README.md", "what is kept", code_headline),
    Part("docs/api.md", "api", api),
    Part("docs/code.md", "what is kept", code_table),
    Part("docs/code.md", "samples", code_samples),
    Part("docs/code.md", "taught", single_taught_table),
    Part("docs/code.md", "documents", documents_table),
    Part("docs/commands.md", "commands", commands),
    Part("docs/curator.md", "taught", taught_table),
    Part("docs/curator.md", "bounds", bounds_table),
    Part("docs/curator.md", "told", told_table),
    Part("docs/large.md", "rates", speed_table),
    Part("docs/large.md", "durations", duration_table),
    Part("docs/models.md", "BLEU", partial(models_table, "bleu")),
    Part("docs/models.md", "content words", partial(models_table, "content_words")),
    Part("docs/models.md", "limit", limit_table),
    Part("docs/models.md", "samples", latent_samples),
    Part("docs/results.md", "beside the paper", beside_the_paper),
    Part("docs/results.md", "tables", experiment_tables),
)


def made_again(page: str) -> str:
    """The text of a page with all its parts made again."""
    text = (REPOSITORY / page).read_text()
    for part in PARTS:
        if part.page == page:
            text = part.put_into(text)
    return text


def main() -> None:
    for page in dict.fromkeys(part.page for part in PARTS):
        before, after = (REPOSITORY / page).read_text(), made_again(page)
        if after != before:
            (REPOSITORY / page).write_text(after)
            print(f"wrote {page}", file=sys.stderr)
    (DOCS / "card.schema.json").write_text(json.dumps(schema(), indent=2) + "\n")


if __name__ == "__main__":
    main()
