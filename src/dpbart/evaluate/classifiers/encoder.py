"""Classifiers trained on rewritten texts with their labels, and tested on original ones.

A classifier is given a train part, a validation part, and the texts to label: nothing else of a data set, so it cannot
see an original text that it should not.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from dpbart.errors import BadParameter
from dpbart.evaluate.classifiers.weights import Ids, LabelModel, TextReader, load_encoder
from dpbart.evaluate.data.parts import Part
from dpbart.evaluate.scores.f1 import score

_CHUNK = 50  # batches whose texts are sorted by length among themselves


@dataclass(frozen=True)
class Labelling:
    """Labels that a classifier gave to the test texts, and how it came to them."""

    predicted: tuple[str, ...]
    valid_f1: float  # macro F1 on the validation part, at its best
    epochs: int  # until that best; 0 for a classifier that has none
    seconds: float


class Classifier(Protocol):
    """Something that learns labels from one part, is tuned on another, and labels texts."""

    def label(self, train: Part, valid: Part, texts: Sequence[str]) -> Labelling: ...


@dataclass(frozen=True)
class EncoderClassifier:
    """A pre-trained encoder, fine-tuned: the paper's classifier.

    Adam with decoupled weight decay; each epoch ends with the macro F1 on the validation part; training stops when that
    has not risen for `patience` epochs, and the weights of the best epoch label the test texts.
    """

    encoder: str = "mini"
    learning_rate: float = 5e-4
    batch_size: int = 32
    length: int = 128  # tokens of a text, at most
    epochs: int = 50  # at most
    patience: int = 5  # epochs
    weight_decay: float = 0.001
    weighted: bool = False  # whether rare labels weigh more, by the square root of how rare they are
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "length", "epochs", "patience"):
            if getattr(self, name) < 1:
                raise BadParameter(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not self.learning_rate > 0:
            raise BadParameter(f"learning_rate must be greater than 0, got {self.learning_rate}.")

    def label(self, train: Part, valid: Part, texts: Sequence[str]) -> Labelling:
        began = time.monotonic()
        with torch.random.fork_rng():  # a training seed, which has nothing to do with the noise of a rewriting
            torch.manual_seed(self.seed)
            names = sorted(set(train.labels))
            model, reader = load_encoder(self.encoder, labels=len(names), length=self.length)
            trained = _Training(self, model, reader, names)
            best, epochs = trained.fit(train, valid)
            predicted = trained.predict(reader.read(texts))
        return Labelling(tuple(predicted), best, epochs, time.monotonic() - began)


class _Training:
    def __init__(self, settings: EncoderClassifier, model: LabelModel, reader: TextReader, names: list[str]) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.settings, self.model, self.reader, self.names = settings, model.to(self.device), reader, names

    def fit(self, train: Part, valid: Part) -> tuple[float, int]:
        """Train to the best epoch; its macro F1 on the validation part and its number come back."""
        optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=self.settings.learning_rate, weight_decay=self.settings.weight_decay, fused=True
        )
        ids, valid_ids = self.reader.read(train.texts), self.reader.read(valid.texts)
        targets = [self.names.index(label) for label in train.labels]
        label_weights = self._label_weights(targets)
        best, best_epoch, weights = -1.0, 0, self.model.state_dict()
        for epoch in range(1, self.settings.epochs + 1):
            self._epoch(optimizer, ids, targets, label_weights, epoch)
            reached = score(valid.labels, self.predict(valid_ids)).macro_f1
            if reached > best:
                best, best_epoch, weights = reached, epoch, copy.deepcopy(self.model.state_dict())
            elif epoch - best_epoch >= self.settings.patience:
                break
        self.model.load_state_dict(weights)
        return best, best_epoch

    def _label_weights(self, targets: list[int]) -> torch.Tensor | None:
        """(labels,): 1 for a label of average frequency. None: every text weighs the same, as in the paper."""
        if not self.settings.weighted:
            return None
        counts = torch.bincount(torch.tensor(targets), minlength=len(self.names)).float()
        return (counts.mean() / counts).sqrt().to(self.device)

    def _epoch(
        self, optimizer: torch.optim.Optimizer, ids: Ids, targets: list[int], weight: torch.Tensor | None, epoch: int
    ) -> None:
        self.model.train()
        for rows in similar_lengths(ids, self.settings.batch_size, seed=self.settings.seed * 1000 + epoch):
            scores = self.model(*self.reader.pad([ids[row] for row in rows], self.device))  # (batch, labels)
            wanted = torch.tensor([targets[row] for row in rows], device=self.device)  # (batch,)
            loss = torch.nn.functional.cross_entropy(scores, wanted, weight=weight)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()

    @torch.inference_mode()
    def predict(self, ids: Ids) -> list[str]:
        self.model.eval()
        predicted = [""] * len(ids)
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        for start in range(0, len(ids), 256):
            rows = order[start : start + 256]
            best = self.model(*self.reader.pad([ids[row] for row in rows], self.device)).argmax(-1).tolist()
            for row, label in zip(rows, best, strict=True):
                predicted[row] = self.names[label]
        return predicted


def similar_lengths(ids: Ids, batch_size: int, *, seed: int) -> Iterator[list[int]]:
    """Rows in batches of similar length, in a random order: less padding, and every row once.

    >>> sorted(row for batch in similar_lengths([[1], [1, 2], [3]], 2, seed=0) for row in batch)
    [0, 1, 2]
    """
    dice = random.Random(seed)
    rows = list(range(len(ids)))
    dice.shuffle(rows)
    batches: list[list[int]] = []
    for start in range(0, len(rows), _CHUNK * batch_size):
        chunk = sorted(rows[start : start + _CHUNK * batch_size], key=lambda row: len(ids[row]))
        batches += [chunk[first : first + batch_size] for first in range(0, len(chunk), batch_size)]
    dice.shuffle(batches)
    yield from batches
