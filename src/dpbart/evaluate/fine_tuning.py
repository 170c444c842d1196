"""Fine-tune a pre-trained encoder to the best epoch, and label texts with it.

It only evaluates rewritten texts. It is not on the private path, so it may use masks and lengths.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from dpbart.evaluate.data.splits import LabelledTexts
from dpbart.evaluate.scores import score
from dpbart.models.sentences import BatchTokenizer, Ids, find_encoder, load_pretrained

_CHUNK = 50  # batches; texts are sorted by length within a chunk
_WHAT = "encoder"
_REMEDY = "Pass 'mini', a directory, or, with a network, a hub id such as bert-base-uncased."


class LabelModel(torch.nn.Module):
    """Ids to a score for each label: a feed-forward layer on the mean of the last hidden states.

    A text longer than the encoder's window is read in pieces of that length.
    """

    def __init__(self, encoder: torch.nn.Module, width: int, labels: int, *, window: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.encoder, self.window = encoder, window
        self.head = torch.nn.Sequential(
            torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Linear(width, labels)
        )

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, longest = ids.shape
        window = min(self.window, longest)
        fill = (0, -longest % window)  # to whole pieces
        ids, mask = (torch.nn.functional.pad(each, fill) for each in (ids, mask))  # (batch, pieces x window)
        pieces, seen = ids.view(-1, window), mask.view(-1, window)  # (batch x pieces, window)
        seen = torch.where(seen.any(1, keepdim=True), seen, 1)  # a piece of padding must see something; its weight is 0
        hidden = self.encoder(input_ids=pieces, attention_mask=seen).last_hidden_state
        hidden = hidden.reshape(batch, ids.shape[1], -1)  # (batch, pieces x window, width)
        weight = mask.unsqueeze(-1).to(hidden.dtype)  # (batch, pieces x window, 1)
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)  # (batch, width)
        scores: torch.Tensor = self.head(mean)  # (batch, labels)
        return scores


def load_encoder(name: str, *, labels: int, length: int) -> tuple[LabelModel, BatchTokenizer]:
    """Load an encoder by bundled name, directory, or hub id; from an encoder-decoder, only the encoder.

    `length` is the most tokens of a text to read. An encoder with fewer positions (mini: 20) reads them in pieces.
    """
    loaded = load_pretrained(find_encoder(name, what=_WHAT, remedy=_REMEDY), what=_WHAT, remedy=_REMEDY)
    model = LabelModel(loaded.model, loaded.width, labels, window=loaded.window)
    return model, BatchTokenizer(loaded.tokenizer, length)


@dataclass(frozen=True)
class FineTuning:
    """The settings of one training; see `EncoderClassifier`."""

    encoder: str
    learning_rate: float
    seed: int
    batch_size: int
    length: int
    epochs: int
    patience: int
    weight_decay: float
    weighted: bool


def fine_tune(
    settings: FineTuning, train: LabelledTexts, valid: LabelledTexts, texts: Sequence[str]
) -> tuple[list[str], float, int]:
    """Train to the best epoch on valid. Returns the labels of `texts`, that epoch's macro F1, and its number."""
    with torch.random.fork_rng():  # the training seed is unrelated to the noise of a rewriting
        torch.manual_seed(settings.seed)
        tuned = _Training(settings, train.labels)
        best, epochs = tuned.fit(train, valid)
        return tuned.predict(tuned.reader.read(texts)), best, epochs


class _Training:
    def __init__(self, settings: FineTuning, labels: Sequence[str]) -> None:
        self.settings, self.names = settings, sorted(set(labels))
        model, self.reader = load_encoder(settings.encoder, labels=len(self.names), length=settings.length)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)

    def fit(self, train: LabelledTexts, valid: LabelledTexts) -> tuple[float, int]:
        """Train to the best epoch. Returns its macro F1 on valid, and its number."""
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
        """(labels,): 1 for a label of average frequency. None: all texts have the same weight, as in the paper."""
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
