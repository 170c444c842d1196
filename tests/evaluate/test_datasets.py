"""Every original format through the whole path, and the checks that hold a result to its data."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.errors import BadParameter, BadTable
from dpbart.evaluate.data import datasets
from dpbart.evaluate.data.datasets import KNOWN, data_folder, load_data
from dpbart.evaluate.data.parts import Labelled, Part
from dpbart.evaluate.data.prepare import OwnFile, make_file
from dpbart.evaluate.data.sources import read_amazon, read_drugs
from dpbart.evaluate.data.splitting import Preparation

Counts = dict[str, dict[str, int]]
AMAZON_COLUMNS = "marketplace customer_id review_id product_id product_parent product_title product_category"
AMAZON_COLUMNS += (
    " star_rating helpful_votes total_votes vine verified_purchase review_headline review_body review_date"
)


@pytest.fixture
def intents(tmp_path: Path) -> Path:
    """As Goo et al. 2018 publish ATIS and Snips."""
    folder = tmp_path / "intents"
    for part, count in (("train", 6), ("valid", 2), ("test", 4)):
        (folder / part).mkdir(parents=True)
        labels = [("book", "play")[row % 2] for row in range(count)]
        (folder / part / "label").write_text("".join(f"{label}\n" for label in labels))
        (folder / part / "seq.in").write_text("".join(f"please {label} {part} {i}\n" for i, label in enumerate(labels)))
        (folder / part / "seq.out").write_text("O O O O\n" * count)
    return folder


@pytest.fixture
def imdb(tmp_path: Path) -> Path:
    folder = tmp_path / "aclImdb"
    for part in ("train", "test"):
        for label, stars in (("pos", 9), ("neg", 2)):
            (folder / part / label).mkdir(parents=True)
            for number in range(20):
                (folder / part / label / f"{number}_{stars}.txt").write_text(f"A {label} film, {part} {number}.<br />")
    return folder


@pytest.fixture
def drugs(tmp_path: Path) -> Path:
    """Quotes around reviews, doubled as CSV does it; HTML entities; a line break inside a review."""
    folder = tmp_path / "drugs"
    folder.mkdir()
    header = "\tdrugName\tcondition\treview\trating\tdate\tusefulCount\n"
    for name, count in (("Train", 20), ("Test", 6)):
        lines = [
            f'{row}\tDrugol\tPain\t"""It&#039;s {name} {row},\nreally ""fine"""""\t{row % 10 + 1}.0\t"May 1, 2012"\t3\n'
            for row in range(count)
        ]
        (folder / f"drugsCom{name}_raw.tsv").write_text(header + "".join(lines))
    return folder


def amazon_line(category: str, stars: int | str, text: str) -> str:
    cells = dict.fromkeys(AMAZON_COLUMNS.split(), "x") | {
        "product_category": category,
        "star_rating": str(stars),
        "review_body": text,
    }
    return "\t".join(cells.values()) + "\n"


@pytest.fixture
def amazon(tmp_path: Path) -> Path:
    """Two chosen categories with four positive reviews to one negative, one other, and the faults of the real files."""
    dice, lines = random.Random(1), []
    for category in ("Electronics", "Lawn and Garden", "Books"):
        for number in range(600):
            stars = dice.choice((5, 4, 5, 4, dice.choice((1, 2, 3))))
            # An open quote, which the files do not escape; and few texts, so that many stand there twice.
            lines.append(amazon_line(category, stars, f'"good thing {category} {number % 150} {stars}'))
    lines.append(amazon_line("Electronics", 5, "long " * 21))
    lines.append(amazon_line("Electronics", 1, " "))
    lines.append("a\tbroken\tline\n")
    file = tmp_path / "amazon_reviews_us_Some.tsv"
    file.write_text("\t".join(AMAZON_COLUMNS.split()) + "\n" + "".join(lines))
    return file


def make(kind: str, source: Path, out: Path, *, own: OwnFile | None = None, seed: int = 0) -> Counts:
    return make_file(kind, [source], out, own=own or OwnFile(), seed=seed, allow_different=True)


def rows_of(file: Path) -> list[tuple[str, str, str]]:
    return [tuple(row.values()) for row in pq.read_table(file).to_pylist()]


def test_intents_are_read_with_their_parts(intents: Path, tmp_path: Path) -> None:
    out = tmp_path / "snips.parquet"
    counts = make("snips", intents, out)
    assert counts == {"train": {"book": 3, "play": 3}, "valid": {"book": 1, "play": 1}, "test": {"book": 2, "play": 2}}
    assert rows_of(out)[1] == ("train", "play", "please play train 1")
    data = load_data("snips", tmp_path, allow_different=True)
    assert (len(data.train), len(data.valid), len(data.test)) == (6, 2, 4)


def test_the_original_folder_is_found_by_name(intents: Path, tmp_path: Path) -> None:
    intents.rename(tmp_path / "atis")
    assert len(load_data("atis", tmp_path, allow_different=True).test) == 4


def test_a_label_too_few_is_refused(intents: Path, tmp_path: Path) -> None:
    (intents / "valid" / "label").write_text("book\n")
    with pytest.raises(BadTable, match="must have a label for each text, got only one of them in line 2"):
        make("snips", intents, tmp_path / "o.parquet")
    assert not (tmp_path / "o.parquet").exists()


def test_an_empty_label_is_told_by_line(intents: Path, tmp_path: Path) -> None:
    (intents / "valid" / "label").write_text("book\n\n")
    with pytest.raises(BadTable, match="valid/label' line 2 has no label"):
        make("snips", intents, tmp_path / "o.parquet")


def test_a_review_that_is_not_utf_8_is_read_all_the_same(imdb: Path, tmp_path: Path) -> None:
    (imdb / "train" / "neg" / "0_2.txt").write_bytes(b"A caf\xe9.")
    make("imdb", imdb, tmp_path / "imdb.parquet")
    assert "A caf\ufffd." in {text for _, _, text in rows_of(tmp_path / "imdb.parquet")}


def test_imdb_is_read_and_a_fifth_of_train_is_for_validation(imdb: Path, tmp_path: Path) -> None:
    counts = make("imdb", imdb, tmp_path / "imdb.parquet")
    assert counts["test"] == {"neg": 20, "pos": 20}
    assert sum(counts["train"].values()) + sum(counts["valid"].values()) == 40
    assert 2 <= sum(counts["valid"].values()) <= 16


def test_drugs_reviews_lose_their_quotes_and_entities(drugs: Path, tmp_path: Path) -> None:
    rows = list(read_drugs(drugs))
    assert rows[0][1].text == 'It\'s Train 0,\nreally "fine"'
    # Ratings 1 to 10, twice: 8, 9 and 10 are positive.
    assert Counter(row.label for part, row in rows if part == "train") == {"negative": 14, "positive": 6}
    assert sum(make("drugs", drugs, tmp_path / "drugs.parquet")["test"].values()) == 6


def test_a_rating_that_is_no_number_is_told_by_row(drugs: Path) -> None:
    file = drugs / "drugsComTest_raw.tsv"
    file.write_text(file.read_text().replace("\t2.0\t", "\tgood\t"))
    with pytest.raises(BadTable, match="drugsComTest_raw.tsv' row 2 must have a number for a rating"):
        list(read_drugs(drugs))


class TestAmazon:
    def test_classes_are_balanced_within_categories_and_a_third_goes(self, amazon: Path, tmp_path: Path) -> None:
        fitting = [row for row in read_amazon([amazon]) if 0 < len(row.text.split()) <= 20]
        assert {row.group for row in fitting} == {"Electronics", "Lawn and Garden"}
        rare = Counter(row.group for row in fitting if row.label == "negative")
        counts = make("amazon", amazon, tmp_path / "amazon.parquet")
        total = Counter[str]()
        for labels in counts.values():
            total += Counter(labels)
        assert total["positive"] == total["negative"] == sum(n - (n + 2) // 3 for n in rare.values())

    def test_four_and_five_stars_are_positive(self, tmp_path: Path) -> None:
        file = tmp_path / "a.tsv"
        lines = [amazon_line("Wireless", stars, f"{stars} stars") for stars in (1, 2, 3, 4, 5)]
        file.write_text("\t".join(AMAZON_COLUMNS.split()) + "\n" + "".join(lines))
        assert [row.label for row in read_amazon([file])] == ["negative"] * 3 + ["positive"] * 2

    def test_a_review_without_stars_is_left_out_and_not_negative(self, tmp_path: Path) -> None:
        stars = [5.0, None, 1.0]
        columns = {"product_category": ["Wireless"] * 3, "star_rating": stars, "review_body": ["good", "none", "bad"]}
        pq.write_table(pa.table(columns), tmp_path / "floats.parquet")
        wanted = [Labelled("positive", "good", "Wireless"), Labelled("negative", "bad", "Wireless")]
        assert list(read_amazon([tmp_path / "floats.parquet"])) == wanted
        lines = [
            amazon_line("Wireless", s, t) for s, t in ((5, "good"), ("", "none"), ("2015-08-31", "none"), (1, "bad"))
        ]
        (tmp_path / "a.tsv").write_text("\t".join(AMAZON_COLUMNS.split()) + "\n" + "".join(lines))
        assert list(read_amazon([tmp_path / "a.tsv"])) == wanted

    def test_a_damaged_download_is_told_and_leaves_nothing(self, amazon: Path, tmp_path: Path) -> None:
        whole = gzip.compress(amazon.read_bytes())
        for damaged in (whole[:-200], b"no gzip at all", whole[:60] + bytes(10) + whole[70:]):
            (tmp_path / "x.tsv.gz").write_bytes(damaged)
            with pytest.raises(BadTable, match=r"x.tsv.gz' cannot be read to its end: it is damaged or cut off"):
                make("amazon", tmp_path / "x.tsv.gz", tmp_path / "o.parquet")
        assert not (tmp_path / "o.parquet").exists()

    def test_a_category_with_one_class_is_left_out(self) -> None:
        rows = [Labelled("good", f"{i}", "one") for i in range(9)]
        rows += [Labelled("bad" if i % 2 else "good", f"other {i}", "both") for i in range(9)]
        kept = Counter((row.group, row.label) for _, row in Preparation(balanced=True).run(lambda: rows))
        assert kept == {("both", "good"): 4, ("both", "bad"): 4}

    def test_texts_of_one_to_twenty_words_stay(self) -> None:
        rows = [Labelled("a", "word " * words) for words in (0, 1, 20, 21)]
        kept = [len(row.text.split()) for _, row in Preparation(longest=20).run(lambda: rows)]
        assert kept == [1, 20]

    def test_balancing_draws_each_row_at_most_once(self, amazon: Path) -> None:
        rows = [Labelled("many", f"text {i}") for i in range(300)] + [Labelled("few", f"rare {i}") for i in range(40)]
        kept = [row.text for _, row in Preparation(balanced=True).run(lambda: rows)]
        assert len(kept) == len(set(kept)) == 80

    def test_no_text_is_in_two_parts(self, amazon: Path, tmp_path: Path) -> None:
        make("amazon", amazon, tmp_path / "a.parquet")
        where: dict[str, set[str]] = {}
        for part, _, text in rows_of(tmp_path / "a.parquet"):
            where.setdefault(text, set()).add(part)
        assert any(n > 1 for n in Counter(text for _, _, text in rows_of(tmp_path / "a.parquet")).values())
        assert all(len(parts) == 1 for parts in where.values())

    def test_the_seed_decides_and_nothing_else(self, amazon: Path, tmp_path: Path) -> None:
        made = []
        for name, seed in (("a", 0), ("b", 0), ("c", 1)):
            random.seed()
            make("amazon", amazon, tmp_path / f"{name}.parquet", seed=seed)
            made.append(rows_of(tmp_path / f"{name}.parquet"))
        assert made[0] == made[1] != made[2]

    def test_gzip_and_parquet_give_the_same(self, amazon: Path, tmp_path: Path) -> None:
        zipped = tmp_path / "x.tsv.gz"
        zipped.write_bytes(gzip.compress(amazon.read_bytes()))
        cells = [line.split("\t") for line in amazon.read_text().splitlines()]
        whole = [row for row in cells[1:] if len(row) == len(cells[0])]
        columns = {name: [row[i] for row in whole] for i, name in enumerate(cells[0])}
        columns["star_rating"] = [int(stars) for stars in columns["star_rating"]]  # type: ignore[misc]
        pq.write_table(pa.table(columns), tmp_path / "x.parquet")
        plain = list(read_amazon([amazon]))
        assert plain == list(read_amazon([zipped])) == list(read_amazon([tmp_path / "x.parquet"]))

    def test_another_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "x.tsv").write_text("id\ttext\n1\tgood\n")
        with pytest.raises(BadTable, match="no column 'product_category'"):
            make("amazon", tmp_path / "x.tsv", tmp_path / "o.parquet")


def test_an_own_file_is_split_balanced_and_freed_of_repeats(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    lines = [f"{'good' if i % 4 else 'bad'},text {i}\n" for i in range(400)]
    file.write_text("stars,review\n" + "".join(lines * 2))
    own = OwnFile("review", "stars", longest=2, balanced=True)
    counts = make("own", file, tmp_path / "own.parquet", own=own)
    total = Counter[str]()
    for labels in counts.values():
        total += Counter(labels)
    assert total == {"good": 100, "bad": 100}
    assert load_data("own.parquet", tmp_path).train.texts


def test_parts_that_an_own_file_names_stay(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    lines = [f"{'test' if i % 3 else 'train'},{'good' if i % 4 else 'bad'},text {i}\n" for i in range(120)]
    file.write_text("split,label,text\n" + "".join(lines))
    make("own", file, tmp_path / "o.parquet")
    made = rows_of(tmp_path / "o.parquet")
    assert {text for part, _, text in made if part == "test"} == {f"text {i}" for i in range(120) if i % 3}
    assert {part for part, _, _ in made} == {"train", "valid", "test"}  # a fifth of train
    balanced = make("own", file, tmp_path / "o.parquet", own=OwnFile(balanced=True))
    assert balanced["test"] == {"good": 20, "bad": 20}
    file.write_text(file.read_text().replace("test,", "valid,", 30))
    counts = make("own", file, tmp_path / "o.parquet")
    assert [sum(labels.values()) for labels in counts.values()] == [40, 30, 50]


def test_parts_that_a_known_sets_table_names_stay(tmp_path: Path) -> None:
    lines = [f"{('train', 'train', 'valid', 'test')[i % 4]},{'ab'[i % 2]},text {i}\n" for i in range(80)]
    (tmp_path / "x.csv").write_text("split,label,text\n" + "".join(lines))
    counts = make("imdb", tmp_path / "x.csv", tmp_path / "o.parquet")
    assert [sum(labels.values()) for labels in counts.values()] == [40, 20, 20]


def test_a_part_of_another_name_is_named_and_not_split_anew(tmp_path: Path) -> None:
    (tmp_path / "folds.csv").write_text("split,label,text\n" + "".join(f"fold,a,text {i}\n" for i in range(90)))
    with pytest.raises(BadTable, match=r"'split' in .* row 1 must be train, valid or test, got 'fold'"):
        load_data("folds", tmp_path)


def test_a_part_called_all_is_still_to_be_split(tmp_path: Path) -> None:
    (tmp_path / "whole.csv").write_text("split,label,text\n" + "".join(f"all,a,text {i}\n" for i in range(100)))
    data = load_data("whole", tmp_path)
    assert len(data.train) + len(data.valid) + len(data.test) == 100
    assert min(len(data.train), len(data.valid), len(data.test)) > 0


def test_a_table_without_parts_is_split_when_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("label,text\n" + "".join(f"{'ab'[i % 2]},text {i}\n" for i in range(200)))
    data = load_data("plain", tmp_path)
    assert len(data.train) + len(data.valid) + len(data.test) == 200
    assert data.checksum == load_data("plain", tmp_path).checksum


def test_parts_must_be_named_in_all_rows_or_in_none(tmp_path: Path) -> None:
    (tmp_path / "half.csv").write_text("split,label,text\ntrain,a,one\n,b,two\n")
    with pytest.raises(BadTable, match="must name a part in every row"):
        load_data("half", tmp_path)


def test_a_row_without_a_label_is_named(tmp_path: Path) -> None:
    (tmp_path / "gap.csv").write_text("label,text\na,one\n,two\n")
    with pytest.raises(BadTable, match="row 2 has no label"):
        load_data("gap", tmp_path)


def test_other_counts_than_the_papers_are_named_and_refused(intents: Path, tmp_path: Path) -> None:
    with pytest.raises(BadTable) as told:
        make_file("snips", [intents], tmp_path / "o.parquet", own=OwnFile(), seed=0, allow_different=False)
    assert str(told.value) == (
        "this is not the paper's 'snips': 8 texts to train and validate on where the paper has 13,784; "
        "4 texts to test on where the paper has 700; 2 classes where the paper has 7. "
        "Pass --allow-different to go on with it."
    )
    assert list(tmp_path.glob("*.parquet")) == []
    intents.rename(tmp_path / "snips")
    with pytest.raises(BadTable, match="not the paper's 'snips'"):
        load_data("snips", tmp_path)


def test_the_papers_counts_pass() -> None:
    # Theory, section 6; 97,410 positive reviews of Drugs.com are the paper's own count.
    drugs = {"train": Counter(positive=97_410, negative=63_887), "valid": Counter[str]()}
    right = drugs | {"test": Counter(positive=1, negative=53_765)}
    assert KNOWN["drugs"].differences(right) == []
    wrong = right | {"train": Counter(positive=46_421, negative=114_876)}  # 8 and 9 alone, as the paper's sentence says
    assert KNOWN["drugs"].differences(wrong) == [
        "46,421 positive texts to train and validate on where the paper has 97,410"
    ]


def test_unseen_and_untested_labels_are_named(tmp_path: Path) -> None:
    lines = "train,a,1\ntrain,b,2\nvalid,a,3\ntest,a,4\ntest,c,5\n"
    (tmp_path / "odd.csv").write_text("split,label,text\n" + lines)
    data = load_data("odd", tmp_path)
    assert (data.unseen, data.untested) == (("c",), ("b",))


def test_the_folder_comes_from_the_option_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPBART_DATA", raising=False)
    with pytest.raises(BadParameter, match="Pass --data DIR, or set DPBART_DATA"):
        data_folder(None)
    monkeypatch.setenv("DPBART_DATA", str(tmp_path))
    assert data_folder(None) == tmp_path


def test_a_known_set_that_is_not_there_comes_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = tmp_path / "hub" / "plain_text"
    hub.mkdir(parents=True)
    for part in ("train", "test", "unsupervised"):
        table = pa.table({"text": [f"{part} {i}" for i in range(30)], "label": [i % 2 for i in range(30)]})
        pq.write_table(table, hub / f"{part}-00000-of-00001.parquet")
    monkeypatch.setattr(datasets, "fetch", lambda name: {"stanfordnlp/imdb": hub.parent}[name])
    data = load_data("imdb", tmp_path, allow_different=True)
    assert len(data.train) + len(data.valid) == len(data.test) == 30


def test_a_set_that_is_nowhere_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="Put 'drugs.parquet' .* there, or make it with 'dpbart datasets prepare'"):
        load_data("drugs", tmp_path)


def test_a_sample_is_drawn_without_replacement_and_in_order() -> None:
    part = Part(tuple(str(i) for i in range(100)), ("a",) * 100)
    drawn = [int(text) for text in part.sample(10, seed=1).texts]
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 10
    assert part.sample(None, seed=1) == part == part.sample(200, seed=1)
