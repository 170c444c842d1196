"""Attacks succeed where there is something to find, fail where there is not, and stay below the bound."""

from __future__ import annotations

import codecs
import csv
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dpbart.errors import BadParameter
from dpbart.evidence.attack import FEWEST, FEWEST_LOST, Sample, length, release, which_rows
from dpbart.evidence.controls import Released, area, most_area, most_right, shifted
from dpbart.evidence.linking import BookTopics, guess_labels
from dpbart.evidence.singling import RememberedVectors, details, membership, rare_words, single_out
from dpbart.models.bundle import Bundle
from dpbart.models.code.book import Book, Line
from dpbart.models.code.weights import Floats
from dpbart.models.sentences import SentenceEncoderFiles
from dpbart.models.vectors import load_vectors
from dpbart.rewrite.rewriter import Rewriter
from dpbart.testing import fake_rewriter

WARD = Path(__file__).parents[2] / "examples" / "ward.csv"
TEXTS = [
    f"{who} {did} {what} near the {where}"
    for who, did, what, where in itertools.product(
        ("ann", "bob", "cleo", "dan"),
        ("sold", "drew", "lost", "kept"),
        ("apples", "boats", "chairs", "doors"),
        ("mill", "pier", "barn", "gate"),
    )
]


class LetterVectors:
    """A sentence encoder without weights: how often each letter occurs."""

    identity, width = "letters@000000000000", 26

    def __init__(self) -> None:
        self.read = 0

    def vectors(self, texts: Sequence[str]) -> Floats:
        self.read += len(texts)
        counts = np.array([[text.lower().count(chr(97 + n)) for n in range(26)] for text in texts], np.float32)
        unit: Floats = counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1)
        return unit


def responses(texts: Sequence[str], *, epsilon: float, seed: int) -> Released:
    """Each text is its own code: kept, or another of the texts by randomised response."""
    dice, k = np.random.default_rng(seed), len(texts)
    keep = np.exp(epsilon) / (np.exp(epsilon) + k - 1)
    others = (np.arange(k) + dice.integers(1, k, k)) % k
    rows = np.where(dice.random(k) < keep, np.arange(k), others)
    return Released(tuple(texts), tuple(texts[row] for row in rows), tuple(frozenset([text]) for text in texts))


def test_singling_out_reaches_the_bound_of_randomised_response_and_no_more() -> None:
    """With as many candidates as codes, the likelihood is the best attack, and the bound is exact."""
    texts, vectors = TEXTS[:200], LetterVectors()
    found = [
        single_out(responses(texts, epsilon=5, seed=seed), None, vectors, epsilon=5, delta=0, candidates=200, seed=seed)
        for seed in range(4)
    ]
    bound = most_right(5, 0, prior=1 / 200)
    assert {each.bound for each in found} == {bound}
    assert np.mean([each.score for each in found]) == pytest.approx(bound, abs=4 * found[0].spread / 2)
    assert all(each.originals == 1.0 and each.unrelated < 0.05 for each in found)


def test_a_release_that_spends_twice_its_epsilon_is_seen_above_the_bound() -> None:
    broken = responses(TEXTS[:200], epsilon=10, seed=0)
    found = single_out(broken, None, LetterVectors(), epsilon=5, delta=0, candidates=200)
    assert found.bound is not None
    assert found.score > found.bound + 4 * found.spread


def test_a_tie_counts_in_part() -> None:
    """Outputs that say nothing get exactly what chance gives, not the benefit of the first place."""
    nothing = Released(tuple(TEXTS), ("",) * len(TEXTS))
    found = single_out(nothing, None, LetterVectors(), epsilon=1, delta=0, candidates=10)
    assert found.score == pytest.approx(0.1)
    assert found.chance == pytest.approx(0.1)


def test_the_matcher_is_not_chosen_on_the_texts_that_it_is_scored_on() -> None:
    """Pure noise: the best of several matchers on its own texts would be above chance."""
    dice, scores = np.random.default_rng(0), []
    for seed in range(30):
        noise = ["".join(dice.choice(list("abcdefghij "), 12)) for _ in TEXTS[:60]]
        file = Released(tuple(TEXTS[:60]), tuple(noise))
        scores.append(single_out(file, None, LetterVectors(), epsilon=1, delta=0, candidates=2, seed=seed).score)
    assert np.mean(scores) == pytest.approx(0.5, abs=3 * np.std(scores) / 30**0.5)


def test_membership_is_certain_without_noise_and_nothing_for_a_file_without_the_targets() -> None:
    mixed = [TEXTS[row] for row in np.random.default_rng(0).permutation(len(TEXTS))]
    file, others = (Released(tuple(part), tuple(part)) for part in (mixed[::2], mixed[1::2]))
    found = membership(file, others, LetterVectors(), epsilon=10, delta=0)
    assert found.score == found.originals == 1.0
    assert found.unrelated == pytest.approx(0.5, abs=0.15)
    assert found.phantom is not None
    assert found.phantom < 0.7  # the most similar texts outside the file are like its own, and still not these
    assert found.bound == most_area(10, 0)


STYLES = {"ann": "thus the {} was indeed {}", "bob": "well the {} got all {}"}
THINGS = ["kettle", "ladder", "bridge", "garden", "mirror", "window", "basket", "candle"]
LOOKS = ["old", "red", "dry", "bent", "open", "wet", "cold", "soft", "dark", "loud"]


def in_styles(outputs: dict[str, str]) -> tuple[Released, list[str], Released, list[str]]:
    """Two authors who write about the same things. What comes out of each has another form, and half is attacked."""
    rows = [(who, thing, look) for who in STYLES for thing in THINGS for look in LOOKS]
    order = np.random.default_rng(0).permutation(len(rows))
    texts = [STYLES[who].format(thing, look) for who, thing, look in rows]
    written = [outputs[who].format(thing, look) for who, thing, look in rows]
    halves = order[: len(rows) // 2], order[len(rows) // 2 :]
    own, file = (Released(tuple(texts[row] for row in half), tuple(written[row] for row in half)) for half in halves)
    return own, [rows[row][0] for row in halves[0]], file, [rows[row][0] for row in halves[1]]


def book_of(*sentences: tuple[str, str]) -> BookTopics:
    vectors, lines = LetterVectors(), [Line("", topic, sentence) for topic, sentence in sentences]
    return BookTopics(Book.of(lines, vectors.vectors([line.sentence for line in lines])), vectors)


def attacked(outputs: dict[str, str], topics: BookTopics) -> dict[str, tuple[float, float, float]]:
    """Score, control on the originals, and unrelated control, by the kind of attacker."""
    own, own_labels, file, labels = in_styles(outputs)
    found = guess_labels(
        "author",
        own,
        own_labels,
        file,
        labels,
        shifted(file.rewritten),
        vectors=LetterVectors(),
        topics=topics,
        epsilon=10,
        delta=0,
    )
    return {each.attack.split(", ")[1]: (each.score, each.originals, each.unrelated) for each in found}


def test_an_adaptive_attacker_reads_what_a_static_one_cannot() -> None:
    """What comes out shows who wrote it, but in words that no original has."""
    hidden = {who: codecs.encode(style, "rot13") for who, style in STYLES.items()}
    found = attacked(hidden, book_of(("a", "one kettle"), ("b", "two ladders")))
    assert found["adaptive"][0] == found["static"][1] == found["adaptive"][1] == 1.0
    assert found["static"][0] < 0.75
    assert found["adaptive"][2] == pytest.approx(0.5, abs=0.2)


def test_what_wording_gives_away_beyond_its_topic_can_be_read_off() -> None:
    same_topic = book_of(*(("things", text) for text in ("this is it", "that is it")))
    by_wording = attacked({"ann": "this is it", "bob": "that is it"}, same_topic)
    assert by_wording["adaptive"][0] == 1.0
    assert by_wording["topic alone"][0] < 0.7
    two_topics = book_of(("these", "this is it"), ("those", "that is it"))
    for ann, bob in (("this is it", "that is it"), ("that is it", "this is it")):  # whatever the originals are near to
        by_topic = attacked({"ann": ann, "bob": bob}, two_topics)
        assert by_topic["adaptive"][0] == by_topic["topic alone"][0] == 1.0


def test_the_topic_of_a_sentence_is_its_own_in_the_book_and_of_the_nearest_elsewhere() -> None:
    topics = book_of(("boats", "the ferry is late."), ("fruit", "a plum pie."))
    assert topics.topics(["the ferry is late. a plum pie.", "plum pie", ""])[:2] == [["boats", "fruit"], ["fruit"]]


def test_like_topics_are_alike_so_that_the_attacker_on_topics_is_no_weaker_than_the_others() -> None:
    topics = book_of(("boats", "the ferry"), ("ships", "the ferries"), ("fruit", "a plum"))
    boats, ships, fruit, both = topics.vectors_of_topics(["the ferry", "the ferries", "a plum", "x. y. a plum"])
    assert boats @ ships > 0.8 > boats @ fruit
    assert np.linalg.norm(both) == pytest.approx(1)


def test_details_are_found_where_they_stand_and_rare_words_stand_nowhere_else() -> None:
    file = Released(("Ada greeted the wombat", "Bo greeted the ocelot"), ("a wombat was seen", "nothing was seen"))
    others = Released(("Cy greeted the gopher",), ("nothing",))
    assert rare_words(file, others) == [["wombat"], ["ocelot"]]
    found = details("rare words", file, shifted(file.rewritten), rare_words(file, others))
    assert found is not None
    assert (found.score, found.originals, found.unrelated) == (0.5, 1.0, 0.0)
    assert details("names", file, None, [[], []]) is None


def test_outputs_of_one_length_hide_the_length_and_padded_ones_show_it() -> None:
    texts = tuple("x" * n for n in range(1, 41))
    hidden, shown = Released(texts, ("same",) * 40), Released(texts, tuple("y" * (2 * len(text)) for text in texts))
    assert length(hidden, None, epsilon=1, delta=0).score == 0.5
    found = length(shown, None, epsilon=1, delta=0)
    assert found.score == found.originals == 1.0
    assert found.bound == most_right(2, 0, prior=0.5)


def test_who_knows_the_subject_of_a_file_can_often_tell_which_rows_were_kept() -> None:
    with WARD.open(newline="") as rows:
        texts = [row["text"] for row in csv.DictReader(rows)]
    vectors = RememberedVectors(load_vectors(SentenceEncoderFiles.inside_default()))
    file = release(Rewriter.load(epsilon=6, replay_seed=1), texts[::2])
    found = which_rows(file, shifted(file.rewritten), vectors)
    assert found is not None
    assert found.bound is None
    assert found.score > 0.75
    assert found.originals > 0.9
    assert found.unrelated == pytest.approx(0.5, abs=0.15)


def test_nothing_is_said_about_which_rows_were_lost_if_only_few_were() -> None:
    meant = tuple(frozenset([text]) for text in TEXTS)
    few, enough = (
        Released(tuple(TEXTS), ("lost",) * lost + tuple(TEXTS[lost:]), meant) for lost in (FEWEST_LOST - 1, FEWEST_LOST)
    )
    assert which_rows(few, None, LetterVectors()) is None
    assert which_rows(enough, None, LetterVectors()) is not None


def test_the_area_is_that_of_all_pairs_and_its_error_that_of_many_samples() -> None:
    dice, positive = np.random.default_rng(0), np.arange(80) < 30
    scores = np.round(dice.normal(size=80) + positive, 1)
    pairs = [(a > b) + (a == b) / 2 for a in scores[positive] for b in scores[~positive]]
    found = area(scores, positive)
    assert found.score == pytest.approx(np.mean(pairs))
    many = [area(dice.normal(size=80) + positive, positive) for _ in range(1000)]
    assert np.mean([each.spread for each in many]) == pytest.approx(np.std([each.score for each in many]), rel=0.1)


def test_a_release_is_what_a_rewriter_writes_and_knows_what_was_meant(tiny_code: Bundle) -> None:
    for epsilon in (4, 10, 15, 20):  # sets of sentences, one sentence, two places, wording
        one, two = (Rewriter.load(str(tiny_code.folder), epsilon=epsilon, replay_seed=3) for _ in range(2))
        found = release(one, TEXTS[:40])
        assert found.rewritten == two.rewrite(TEXTS[:40]).texts
        assert found.meant is not None
        kept = np.mean([text in meant for text, meant in zip(found.rewritten, found.meant, strict=True)])
        promised = one.channel.facts.figures["kept"]
        assert kept == pytest.approx(promised, abs=0.25)
    assert release(fake_rewriter(), TEXTS[:3]).meant is None


def test_a_sample_divides_every_author_alike_and_keeps_chapters_together() -> None:
    authors = [who for who in "abc" for _ in range(120)]
    chapters = [str(number % 120 // 5) for number in range(360)]
    texts = [f"text {number}" for number in range(360)]
    found = Sample.of(texts, authors=authors, groups=chapters)
    parts = found.file, found.others, found.own
    assert sorted(itertools.chain(*parts)) == list(range(360))
    for who in "abc":
        assert [sum(authors[row] == who for row in part) for part in parts] == [30, 30, 60]
    scenes = [{(authors[row], chapters[row]) for row in part} for part in parts]
    assert not scenes[0] & scenes[1]
    assert not scenes[0] & scenes[2]
    assert not scenes[1] & scenes[2]
    assert Sample.of(texts).own == ()
    with pytest.raises(BadParameter, match=f"at least {FEWEST} texts in the file"):
        Sample.of(texts[:30])


def test_each_text_is_read_once() -> None:
    letters = LetterVectors()
    remembered = RememberedVectors(letters)
    twice = [remembered.vectors(["b", "a", "b"]) for _ in range(2)]
    assert letters.read == 2
    assert (twice[0] == twice[1]).all()
    assert twice[0].shape == (3, 26)
