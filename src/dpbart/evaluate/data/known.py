"""The paper's five data sets, with the counts that a copy of each must have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dpbart.errors import BadTable
from dpbart.evaluate.data.originals import read_drugs, read_imdb, read_intents
from dpbart.evaluate.data.splits import SplitRow


@dataclass(frozen=True)
class KnownSet:
    """One of the paper's data sets, and the counts it must have."""

    name: str
    title: str
    classes: int
    train: int  # texts, including those for validation
    test: int  # texts
    label: str  # how labels are defined
    delta: float  # the paper's
    original: str  # format
    source: str
    read: Callable[[Path], Iterable[SplitRow]] | None  # reads the original folder; None: needs 'datasets prepare'
    hub: str | None = None
    positive: int | None = None  # positive texts in train and valid; checks our label rule
    tolerance: float = 0.0  # relative difference allowed in the counts

    def differences(self, counts: Mapping[str, Counter[str]]) -> list[str]:
        """How these counts, of each label in each split, differ from the paper's: one clause per difference."""
        learned = counts["train"] + counts["valid"]
        found = [
            ("texts to train and validate on", learned.total(), self.train, self.tolerance),
            ("texts to test on", counts["test"].total(), self.test, self.tolerance),
            ("classes", len(learned + counts["test"]), self.classes, 0.0),
        ]
        if self.positive is not None:
            found.append(("positive texts to train and validate on", learned["positive"], self.positive, 0.0))
        return [
            f"{got:,} {what} where the paper has {due:,}"
            for what, got, due, slack in found
            if abs(got - due) > slack * due
        ]

    def check(self, counts: Mapping[str, Counter[str]]) -> None:
        """Refuse data with other counts than the paper's.

        Raises:
            BadTable: If the counts differ; the message says how.
        """
        differences = self.differences(counts)
        if differences:
            raise BadTable(
                f"this is not the paper's '{self.name}': {'; '.join(differences)}. "
                "Pass --allow-different to use it anyway."
            )


KNOWN = {
    each.name: each
    for each in (
        KnownSet(
            name="atis",
            title="ATIS: questions to an air travel system",
            classes=26,
            train=4_978,
            test=893,
            label="intent; train has 21 of the 26, and 4 of the test labels are not in train",
            delta=1e-5,
            original="folders train, valid, test with seq.in and label",
            source="Goo et al. 2018, https://github.com/MiuLab/SlotGated-SLU",
            read=read_intents,
        ),
        KnownSet(
            name="snips",
            title="Snips: commands to a voice assistant",
            classes=7,
            train=13_784,  # the paper prints 13,774
            test=700,
            label="intent",
            delta=1e-5,
            original="folders train, valid, test with seq.in and label",
            source="Goo et al. 2018, https://github.com/MiuLab/SlotGated-SLU",
            read=read_intents,
        ),
        KnownSet(
            name="imdb",
            title="IMDb: film reviews",
            classes=2,
            train=25_000,
            test=25_000,
            label="pos (7 or more stars) or neg (4 or fewer); a fifth of train is for validation",
            delta=1e-5,
            original="the folder aclImdb: train/pos/*.txt etc.",
            source="Maas et al. 2011, https://ai.stanford.edu/~amaas/data/sentiment/",
            read=read_imdb,
            hub="stanfordnlp/imdb",
        ),
        KnownSet(
            name="drugs",
            title="Drugs.com: reviews of medicines",
            classes=2,
            train=161_297,
            test=53_766,
            label="positive (rating 8, 9, 10) or negative; a fifth of train is for validation",
            delta=1e-6,
            original="drugsComTrain_raw.tsv and drugsComTest_raw.tsv",
            source="Gräßer et al. 2018, https://archive.ics.uci.edu/dataset/462",
            read=read_drugs,
            positive=97_410,
        ),
        KnownSet(
            name="amazon",
            title="Amazon: product reviews of at most 20 words",
            classes=2,
            train=1_904_197,
            test=211_605,
            label="positive (4, 5 stars) or negative; balanced in each of 7 categories; a fifth of train is for valid",
            delta=1e-7,
            original="amazon_reviews_us_*.tsv[.gz] or the same as Parquet; run 'dpbart datasets prepare amazon'",
            source="Amazon US customer reviews; categories of Igamberdiev and Habernal 2023",
            read=None,
            # The authors sampled the positive class with replacement and dropped empty texts last, so rows differ.
            tolerance=0.01,
        ),
    )
}
