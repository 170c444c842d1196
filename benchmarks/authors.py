"""Author attribution beyond the topic, over many draws: what an adaptive attacker gets, and what explains it.

    python benchmarks/authors.py novels.parquet --group-column part --draws 8
    python benchmarks/authors.py speeches.parquet --draws 8

Each draw divides the texts anew and draws new noise. The attackers are those of `dpbart attack`, and between the two
of them more that explain the difference: some know which part of its topic each sentence is in, with 2, 4 or 8 parts;
others read the form of the sentence that came out (function words, punctuation and length), or only its pronouns, alone
or beside its topic. Figures, and no text, go to standard output as JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
from scipy.cluster.vq import kmeans2

from dpbart import Rewriter
from dpbart.evaluate.scores import FUNCTION_WORDS
from dpbart.evidence.attack import Sample, attackers_tools
from dpbart.evidence.linking import learn, text_reader, topic_reader
from dpbart.evidence.singling import CHARACTERS, VECTORS, WORDS

PARTS = (2, 4, 8)  # of a topic
PRONOUNS = ("i me my mine we us our", "you your yours", "he him his", "she her hers", "they them their", "it its")


def parts_of_topics(topics: Any, parts: int) -> dict[str, np.ndarray]:
    """For each sentence of the book the mean vector of its part of its topic, found by k-means."""
    book, rows = topics.book, dict[str, list[int]]()
    for row, line in enumerate(book.lines):
        rows.setdefault(line.topic, []).append(row)
    found = {}
    for of in rows.values():
        vectors = np.asarray(book.vectors[of], np.float64)
        part = kmeans2(vectors, min(parts, len(of)), minit="++", seed=0)[1]
        for row, number in zip(of, part, strict=True):
            found[book.lines[row].sentence] = vectors[part == number].mean(0)
    return found


def form(texts: Sequence[str]) -> np.ndarray:
    """Function words, punctuation and length of each text, (texts, features)."""
    words = sorted(FUNCTION_WORDS)
    rows = []
    for text in texts:
        found = re.findall(r"[a-z']+", text.lower())
        marks = [text.count(mark) for mark in ".,;:?!'\"-"]
        rows.append([*(found.count(word) for word in words), *marks, len(text) / 50, len(found) / 10])
    return np.array(rows, np.float64)


def pronouns(texts: Sequence[str]) -> np.ndarray:
    """How often each text speaks of whom, (texts, 6)."""
    of = [set(each.split()) for each in PRONOUNS]
    words = [re.findall(r"[a-z]+", text.lower()) for text in texts]
    return np.array([[sum(word in each for word in some) for each in of] for some in words], np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--group-column")
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--draws", type=int, default=8)
    asked = parser.parse_args()
    rows = list({row["text"]: row for row in parquet.read_table(asked.file).to_pylist()}.values())
    texts, authors = [row["text"] for row in rows], [row["author"] for row in rows]
    groups = [str(row[asked.group_column]) for row in rows] if asked.group_column else None
    vectors, topics = attackers_tools("mini-code")
    rewriter = Rewriter.load("mini-code", epsilon=asked.epsilon)
    encoded = [
        code for start in range(0, len(texts), 256) for code in rewriter.model.encode(texts[start : start + 256])
    ]
    of_sentence = {parts: parts_of_topics(topics, parts) for parts in PARTS}
    readers = {
        "adaptive": {each: text_reader(each, vectors) for each in (CHARACTERS, WORDS, VECTORS)},
        "topic alone": {"topics": topic_reader(topics), "vectors": lambda _: topics.vectors_of_topics},
        "form alone": {"form": lambda _: form},
        "pronouns alone": {"pronouns": lambda _: pronouns},
        "topic and pronouns": {
            "both": lambda _: lambda some: np.hstack([topics.vectors_of_topics(some), pronouns(some) / 4])
        },
        "topic and form": {"both": lambda _: lambda some: np.hstack([topics.vectors_of_topics(some), form(some) / 4])},
        **{
            f"{parts} parts of a topic": {
                "parts": lambda _, held=held: lambda some: np.stack([held[text] for text in some])
            }
            for parts, held in of_sentence.items()
        },
    }
    right: dict[str, list[float]] = {name: [] for name in readers}
    for draw in range(asked.draws):
        sample = Sample.of(texts, authors=authors, groups=groups, seed=draw)
        written = rewriter.model.decode(rewriter.channel.send(encoded, rewriter.entropy))
        own, own_labels = [written[row] for row in sample.own], [authors[row] for row in sample.own]
        file, labels = [written[row] for row in sample.file], [authors[row] for row in sample.file]
        for name, ways in readers.items():
            guessed = learn(own, own_labels, ways).guess(file)
            right[name].append(sum(a == b for a, b in zip(guessed, labels, strict=True)) / len(labels))
    beyond = {name: [a - b for a, b in zip(right[name], right["topic alone"], strict=True)] for name in right}
    print(
        json.dumps(
            {
                "file": asked.file.rpartition("/")[2],
                "epsilon": asked.epsilon,
                "draws": asked.draws,
                "attacked": len(sample.file),
                "scores": {name: summary(values) for name, values in right.items()},
                "beyond_topic": {name: summary(values) for name, values in beyond.items()},
            },
            indent=1,
        )
    )


def summary(values: Sequence[float]) -> dict[str, float]:
    """Mean, and the standard error of it by the spread of the draws."""
    return {
        "mean": round(statistics.fmean(values), 4),
        "spread": round(statistics.stdev(values) / len(values) ** 0.5, 4),
    }


if __name__ == "__main__":
    main()
