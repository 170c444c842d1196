"""Fine-tune a pre-trained encoder to the best epoch, and label texts with it."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Iterator, Sequence

import torch

from dpbart.evaluate.classifiers.classifier import Prediction
from dpbart.evaluate.classifiers.encoder import EncoderTraining
from dpbart.evaluate.classifiers.encoder_model import Ids, LabelModel, TextReader, load_encoder
from dpbart.evaluate.data.splits import LabelledTexts
from dpbart.evaluate.scores.f1 import score

_CHUNK = 50  # batches; texts are sorted by length within a chunk


def fine_tune(
    training: EncoderTraining, train: LabelledTexts, valid: LabelledTexts, texts: Sequence[str]
) -> Prediction:
    began, settings = time.monotonic(), training.settings
    with torch.random.fork_rng():  # the training seed is unrelated to the noise of a rewriting
        torch.manual_seed(training.seed)
        names = sorted(set(train.labels))
        model, reader = load_encoder(settings.encoder, labels=len(names), length=settings.length)
        tuned = _FineTuning(training, model, reader, names)
        best, epochs = tuned.fit(train, valid)
        labels = tuned.predict(reader.read(texts))
    return Prediction(tuple(labels), best, epochs, time.monotonic() - began)


class _FineTuning:
    def __init__(self, training: EncoderTraining, model: LabelModel, reader: TextReader, names: list[str]) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.training, self.settings = training, training.settings
        self.model, self.reader, self.names = model.to(self.device), reader, names

    def fit(self, train: LabelledTexts, valid: LabelledTexts) -> tuple[float, int]:
        """Train to the best epoch. Returns its macro F1 on valid, and its number."""
        optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=self.training.learning_rate, weight_decay=self.settings.weight_decay, fused=True
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
        """(labels,): 1 for a label of average frequency. None: all texts have the same weight, as in the paper."""
        if not self.settings.weighted:
            return None
        counts = torch.bincount(torch.tensor(targets), minlength=len(self.names)).float()
        return (counts.mean() / counts).sqrt().to(self.device)

    def _epoch(
        self, optimizer: torch.optim.Optimizer, ids: Ids, targets: list[int], weight: torch.Tensor | None, epoch: int
    ) -> None:
        self.model.train()
        for rows in similar_lengths(ids, self.settings.batch_size, seed=self.training.seed * 1000 + epoch):
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
    """Batches of rows of similar length, in random order. Every row occurs once; there is less padding.

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
