"""What a curious recipient gets: every attack on public texts, at one budget after the other.

The texts are divided into those of a file that is released, others that never are, and, if their authors or another
label are to be guessed, the attacker's own. Only public or made-up texts come here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpbart.channels.code import CodeChannel
from dpbart.errors import BadParameter, require_extra
from dpbart.evaluate.data.made_up import make_up
from dpbart.evidence.controls import AttackScore, Estimate, Released, area, controlled, most_right
from dpbart.evidence.linking import BookTopics, guess_labels
from dpbart.evidence.singling import (
    RememberedVectors,
    details,
    membership,
    phantoms_of,
    rare_words,
    single_out,
)
from dpbart.models.bundle import Bundle
from dpbart.models.code.book import BookUse
from dpbart.models.code.settings import MODEL_TYPE
from dpbart.models.families import family_of
from dpbart.models.model import BookReader
from dpbart.models.sentences import Floats, SentenceVectors
from dpbart.options.evidence import AttackRequest
from dpbart.options.settings import Settings
from dpbart.privacy.mechanisms import NonPrivate
from dpbart.progress import Bar, progress
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.rewriter import Rewriter
from dpbart.tables.table import open_table
from dpbart.version import DEFAULT_MODEL

SEED = 0  # of the division of public texts, and of candidates; nothing that is released depends on it
FEWEST = 20  # texts in the file, and outside it: below this, no score says anything
FEWEST_LOST = 5  # rows that were lost, and rows that were kept: the same
_READ_AT_ONCE = 1024  # rows
MADE_UP = 160  # texts with names and numbers, half of them in the file


@dataclass(frozen=True)
class Labels:
    """A label of each text, such as its author, and what the labels are."""

    what: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """Public texts, divided. Rows are numbers of texts.

    Attributes:
        texts: all of them.
        labels: those that are to be guessed; may be empty.
        file: the rows that are released, and attacked.
        others: the rows that are not in the file. The phantoms are among them.
        own: the attacker's own rows, whose labels are known; empty if no labels are guessed.
    """

    texts: tuple[str, ...]
    labels: tuple[Labels, ...]
    file: tuple[int, ...]
    others: tuple[int, ...]
    own: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        *,
        authors: Sequence[str] | None = None,
        attributes: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        seed: int = SEED,
    ) -> Sample:
        """Divide texts at random: a quarter is the file, a quarter the others, half the attacker's own.

        Without labels, each of the first two is half. Every author is divided alike. Texts of one author and group,
        such as a chapter, stay together, so that the attacker does not learn from the scene that is attacked.
        """
        given = (("author", authors), ("attribute", attributes))
        labels = tuple(Labels(what, tuple(values)) for what, values in given if values is not None)
        if any(len(each.values) != len(texts) for each in labels) or (groups and len(groups) != len(texts)):
            raise BadParameter(f"each of {len(texts):,} texts must have its label and its group.")
        kinds, dice = labels[0].values if labels else ("",) * len(texts), np.random.default_rng(seed)
        parts: tuple[list[int], list[int], list[int]] = ([], [], [])
        for kind in dict.fromkeys(kinds):
            rows = [row for row in range(len(texts)) if kinds[row] == kind]
            together: dict[str, list[int]] = {}
            for row in rows:
                together.setdefault(groups[row] if groups else str(row), []).append(row)
            names, placed = list(together), 0
            for number in dice.permutation(len(names)).tolist():
                middle = (placed + len(together[names[number]]) / 2) / len(rows)  # of this group, from 0 to 1
                part = (0 if middle < 0.25 else 1 if middle < 0.5 else 2) if labels else int(middle >= 0.5)
                parts[part].extend(together[names[number]])
                placed += len(together[names[number]])
        file, others, own = (tuple(sorted(part)) for part in parts)
        if min(len(file), len(others)) < FEWEST:
            raise BadParameter(
                f"an attack needs at least {FEWEST} texts in the file and {FEWEST} outside it, got {len(file)} and "
                f"{len(others)} of {len(texts):,}. Give more texts."
            )
        return cls(tuple(texts), labels, file, others, own)

    def label(self, labels: Labels, rows: Sequence[int]) -> list[str]:
        """The labels of some rows."""
        return [labels.values[row] for row in rows]


def release(rewriter: Rewriter, texts: Sequence[str], bar: Bar | None = None) -> Released:
    """Rewrite texts as `Rewriter.rewrite` does, and remember what each code meant."""
    channel, model = rewriter.channel, rewriter.model
    written, meant = list[str](), list[frozenset[str]]()
    for start in range(0, len(texts), rewriter.batch_size):
        batch = texts[start : start + rewriter.batch_size]
        encoded = model.encode(batch)
        written += model.decode(channel.send(encoded, rewriter.entropy))
        if isinstance(channel, CodeChannel):
            meant += _meant(model, channel, encoded, rewriter)
        if bar is not None:
            bar.advance(len(batch))
    return Released(tuple(texts), tuple(written), tuple(meant) if isinstance(channel, CodeChannel) else None)


def _meant(model: Any, channel: CodeChannel, encoded: Any, rewriter: Rewriter) -> list[frozenset[str]]:
    """What each text comes out as if its code is kept: any sentence of its set, or one text."""
    if channel.size.places == 1 and not channel.size.worded:
        lines = model.decoder.book.lines
        return [frozenset(lines[int(value)].sentence for value in values) for values in encoded]
    kept = CodeChannel(channel.size, NonPrivate()).send(encoded, rewriter.entropy)
    return [frozenset([text]) for text in model.decode(kept)]


def attack_budget(
    sample: Sample, rewriter: Rewriter, *, vectors: SentenceVectors, topics: BookTopics, candidates: int = 100
) -> tuple[AttackScore, ...]:
    """Every attack, on new rewritings of the sample.

    Args:
        sample: the public texts.
        rewriter: a model at one budget.
        vectors: the sentence encoder of the attackers.
        topics: a book for the attack on topics alone.
        candidates: for singling out.
    """
    promised = rewriter.channel.facts.guarantee
    epsilon, delta = promised.epsilon, promised.delta
    made = make_up(MADE_UP)
    half, total = MADE_UP // 2, len(sample.file) + len(sample.others) + len(sample.own) + MADE_UP
    with progress(f"Rewriting at epsilon {epsilon:g}", total=total, unit="texts") as bar:
        file, others, own, about = (
            release(rewriter, texts, bar)
            for texts in (
                *([sample.texts[row] for row in rows] for rows in (sample.file, sample.others, sample.own)),
                [each.text for each in made],
            )
        )
    phantoms = [others.rewritten[row] for row in phantoms_of(file, others, vectors)]
    known, unknown = about.part(range(half)), about.part(range(half, MADE_UP))
    made_phantoms = [unknown.rewritten[row] for row in phantoms_of(known, unknown, vectors)]
    found: list[AttackScore | None] = [
        single_out(file, phantoms, vectors, epsilon=epsilon, delta=delta, candidates=candidates),
        membership(file, others, vectors, epsilon=epsilon, delta=delta),
    ]
    for labels in sample.labels:
        found += guess_labels(
            labels.what,
            own,
            sample.label(labels, sample.own),
            file,
            sample.label(labels, sample.file),
            phantoms,
            vectors=vectors,
            topics=topics,
            epsilon=epsilon,
            delta=delta,
        )
    found += [
        details("names", known, made_phantoms, [each.names for each in made[:half]]),
        details("numbers", known, made_phantoms, [each.numbers for each in made[:half]]),
        details("rare words", file, phantoms, rare_words(file, others)),
        length(file, phantoms, epsilon=epsilon, delta=delta),
        which_rows(file, phantoms, vectors),
    ]
    return tuple(each for each in found if each is not None)


def length(file: Released, phantoms: Sequence[str] | None, *, epsilon: float, delta: float) -> AttackScore:
    """How often the longer of two texts has the longer rewriting, by characters; a tie counts half.

    Which of two texts came out as which of two outputs is two releases, so the bound is that of twice epsilon.
    """
    long = np.array([len(text) for text in file.originals])
    before = np.sign(long[:, None] - long)  # (texts, texts)

    def run(outputs: Sequence[str]) -> Estimate:
        after = np.array([len(text) for text in outputs])
        agrees = np.where(before != 0, (1 + before * np.sign(after[:, None] - after)) / 2, np.nan)
        means = np.nanmean(agrees[(before != 0).any(1)], axis=1)  # of each text with all others
        # Hoeffding 1948: the variance of such a mean over all pairs is 4 / n times that of the means of each text.
        return Estimate(float(np.nanmean(agrees)), 2 * float(means.std()) / len(means) ** 0.5)

    bound = most_right(2 * epsilon, min(1.0, 2 * delta), prior=0.5)
    return controlled("length", "longer of two told", run, file, phantoms=phantoms, chance=0.5, bound=bound)


def which_rows(file: Released, phantoms: Sequence[str] | None, vectors: SentenceVectors) -> AttackScore | None:
    """How well a row that came out as meant is told from one that was replaced at random, by the other outputs.

    A reader who knows the subject of a file takes those outputs for lost that are least like the others. None if the
    channel does not replace texts, or if too few rows were kept or lost to say anything.
    """
    if file.meant is None:
        return None
    kept = np.array([text in meant for text, meant in zip(file.rewritten, file.meant, strict=True)])
    if min(kept.sum(), (~kept).sum()) < FEWEST_LOST:
        return None

    def run(outputs: Sequence[str]) -> Estimate:
        each = vectors.vectors(outputs)  # (texts, width)
        likeness = (each @ each.sum(0) - (each * each).sum(1)) / (len(each) - 1)  # mean cosine to all others
        return area(likeness.astype(np.float64), kept)

    # It must succeed if nothing but the lost rows was rewritten, unless the texts themselves have no subject in common.
    clear = [a if keep else b for a, b, keep in zip(file.originals, file.rewritten, kept.tolist(), strict=True)]
    measure = f"area under the ROC curve, {int((~kept).sum())} of {len(kept)} rows lost"
    return controlled("which rows", measure, run, file, phantoms=phantoms, chance=0.5, clear=clear)


@dataclass(frozen=True)
class BookVectors:
    """The eyes of a model with a book: texts are read exactly as for their codes."""

    identity: str
    reader: BookReader

    @property
    def width(self) -> int:
        return int(self.reader.book.coarse.shape[1])

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, (texts, width)."""
        return self.reader.read(texts)


def attackers_tools(model: str) -> tuple[RememberedVectors, BookTopics]:
    """The sentence encoder and the book of the attackers: the model's own, or those of the default model."""
    bundle = Bundle.find(model)
    if bundle.kind != MODEL_TYPE:
        bundle = Bundle.find(DEFAULT_MODEL)
    reader = family_of(bundle).book_reader(bundle, BookUse())
    vectors = RememberedVectors(BookVectors(bundle.name, reader))
    return vectors, BookTopics(reader.book, vectors)


@dataclass(frozen=True)
class BudgetAttacked:
    """All attacks at one budget."""

    epsilon: float
    delta: float
    scores: tuple[AttackScore, ...]


@dataclass(frozen=True)
class AttackReport:
    """All attacks over several budgets.

    Attributes:
        model: which model exactly.
        encoder: the sentence encoder of the attackers.
        in_file: texts that were released and attacked.
        outside: texts that were not in the file.
        own: the attacker's own texts.
        budgets: ascending.
        release: what was attacked: single texts, or a collection.
    """

    model: str
    encoder: str
    in_file: int
    outside: int
    own: int
    budgets: tuple[BudgetAttacked, ...]
    release: str = "single"

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def attack_file(asked: AttackRequest) -> AttackReport:
    """Attack the texts of a public file at each budget."""
    require_extra("evaluate", "attacks need", "sklearn")
    for epsilon in asked.epsilons:  # a budget that the model cannot use is refused before anything is read
        _ = ChosenModel(Settings(model=asked.model, epsilon=epsilon)).channel
    sample = read_sample(asked)
    vectors, topics = attackers_tools(asked.model)
    attacked, model = list[BudgetAttacked](), ""
    with progress("Attacking", total=len(asked.epsilons), unit="budgets") as bar:
        for epsilon in asked.epsilons:
            rewriter = Rewriter.load(asked.model, epsilon=epsilon)
            model, promised = rewriter.model.line.identity, rewriter.channel.facts.guarantee
            scores = attack_budget(sample, rewriter, vectors=vectors, topics=topics, candidates=asked.candidates)
            attacked.append(BudgetAttacked(promised.epsilon, promised.delta, scores))
            bar.advance(1)
    return AttackReport(model, vectors.identity, len(sample.file), len(sample.others), len(sample.own), tuple(attacked))


def read_sample(asked: AttackRequest) -> Sample:
    """The texts of the file, divided. Empty texts and repeated ones are left out."""
    columns = [asked.author_column, asked.attribute_column, asked.group_column]
    named = [column for column in columns if column is not None]
    table = open_table(asked.file, text_column=asked.text_column, named=named)
    for column, flag in zip(columns, ("--author-column", "--attribute-column", "--group-column"), strict=True):
        if column is not None:
            table.require(column, option=flag)
    rows: dict[str, tuple[str, ...]] = {}  # by text
    for batch in table.batches(_READ_AT_ONCE):
        cells = zip(*(batch.column(column) for column in named), strict=True) if named else [()] * len(batch)
        for text, values in zip(batch.texts(), cells, strict=True):
            if text.strip():
                rows.setdefault(text, tuple(str(value) for value in values))
    texts = list(rows)
    if len(texts) > asked.texts:
        texts = [texts[row] for row in sorted(np.random.default_rng(SEED).choice(len(texts), asked.texts, False))]
    of_column = {column: [rows[text][place] for text in texts] for place, column in enumerate(named)}
    authors, attributes, groups = (None if column is None else of_column[column] for column in columns)
    return Sample.of(texts, authors=authors, attributes=attributes, groups=groups)
