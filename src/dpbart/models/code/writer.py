"""The writer: a small causal language model of sentences, and how codes are read with it.

Sender and receiver must compute the same probabilities to the last bit, or the wording is lost. So both use batches of
one size, in the same order, one token at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpbart.models.code.wording import TextCoder, TextReader, to_edges, to_frequencies

Rows = list[list[int]]

BEGIN, PAD, END, UNKNOWN, CUT = 0, 1, 2, 3, 4  # CUT (the id of <mask>): here a text was cut in training
UNWRITTEN = (BEGIN, PAD, UNKNOWN, CUT)


@dataclass(frozen=True)
class WriterSizes:
    """All sizes of a writer."""

    vocabulary: int = 12_000
    width: int = 256
    layers: int = 3
    heads: int = 4
    inner: int = 1024
    places: int = 40
    frequent: int = 2_500  # tokens of the first softmax; the others share one entry of it and have their own softmax


class Writer(nn.Module):
    """Tokens so far to the probabilities of the next token, the most frequent tokens first."""

    order: Tensor  # (vocabulary,): the id at each place of that order
    rank: Tensor  # (vocabulary,): the place of each id

    def __init__(self, sizes: WriterSizes) -> None:
        super().__init__()
        self.sizes, width = sizes, sizes.width
        self.embed = nn.Embedding(sizes.vocabulary, width)
        self.place = nn.Embedding(sizes.places, width)
        self.blocks = nn.ModuleList([_Block(width, sizes.heads, sizes.inner) for _ in range(sizes.layers)])
        self.last = nn.Parameter(torch.zeros(width))  # added to the states that predict the next token
        self.unembed = nn.Linear(width, sizes.vocabulary)
        self.gate = nn.Linear(width, 1)  # of all tokens that are not frequent
        self.register_buffer("order", torch.arange(sizes.vocabulary))
        self.register_buffer("rank", torch.arange(sizes.vocabulary))

    def hidden(self, ids: Tensor, places: Tensor, mask: Tensor | None, cache: Cache | None) -> Tensor:
        """The states that predict the next tokens.

        Args:
            ids: (batch, tokens), BEGIN where a text begins.
            places: (batch, tokens), counted from 0 in each text.
            mask: which token attends to which, broadcast to (batch, heads, tokens, tokens); None with a cache.
            cache: keys and values of the earlier tokens; None in training.
        """
        width = self.sizes.width
        states = first = F.rms_norm(self.embed(ids) + self.place(places), (width,))
        for number, block in enumerate(self.blocks):
            states = block(states, first, mask, None if cache is None else cache.layers[number])
        return F.rms_norm(states + self.last, (width,))

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The sum over all targets in nats, from states (n, width) and ids (n,)."""
        frequent, ranks = self.sizes.frequent, self.rank[targets]
        rare = (ranks >= frequent).nonzero()[:, 0]
        weight, bias = self.unembed.weight, self.unembed.bias
        near = torch.cat([F.linear(hidden, weight[:frequent], bias[:frequent]), self.gate(hidden)], 1)
        nats = F.cross_entropy(near, ranks.clamp(max=frequent), reduction="sum")
        far = F.linear(hidden[rare], weight[frequent:], bias[frequent:])
        return nats + F.cross_entropy(far, ranks[rare] - frequent, reduction="sum")

    def probabilities(self, hidden: Tensor) -> Tensor:
        """The probabilities of all tokens, (n, vocabulary), the most frequent first, from states (n, width)."""
        frequent = self.sizes.frequent
        logits = self.unembed(hidden)
        logits[:, self.rank[list(UNWRITTEN)]] = -1e9
        near = torch.cat([logits[:, :frequent], self.gate(hidden)], 1).softmax(1)
        return torch.cat([near[:, :frequent], near[:, frequent:] * logits[:, frequent:].softmax(1)], 1)

    @torch.inference_mode()
    def step(self, ids: Tensor, cache: Cache) -> Tensor:
        """Read one token of each text, (batch,), and return the probabilities of the next, (batch, vocabulary)."""
        places = torch.full_like(ids, cache.length)[:, None]
        hidden = self.hidden(ids[:, None], places, None, cache)
        cache.length += 1
        return self.probabilities(hidden[:, 0])

    @torch.inference_mode()
    def whole(self, ids: Tensor) -> Tensor:
        """Read whole texts at once, (batch, tokens): the probabilities after each token, (batch, tokens, vocabulary).

        Rounded differently from `step`, so good for choosing what to say and not for coding it.
        """
        batch, tokens = ids.shape
        mask = torch.ones(tokens, tokens, dtype=torch.bool).tril()
        hidden = self.hidden(ids, torch.arange(tokens).expand(batch, tokens), mask, None)
        return self.probabilities(hidden.reshape(batch * tokens, -1)).view(batch, tokens, -1)


class Cache:
    """Keys and values of the tokens read so far, for one batch."""

    def __init__(self, sizes: WriterSizes, batch: int) -> None:
        shape = (batch, sizes.heads, sizes.places, sizes.width // sizes.heads)
        self.length = 0
        self.layers = [_Kept(self, torch.zeros(shape), torch.zeros(shape)) for _ in range(sizes.layers)]


class _Kept:
    """One layer's part of a cache."""

    def __init__(self, cache: Cache, keys: Tensor, values: Tensor) -> None:
        self._cache, self._keys, self._values = cache, keys, values

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add one token's keys and values, (batch, heads, 1, width of a head). Returns all so far."""
        place = self._cache.length
        self._keys[:, :, place] = keys[:, :, 0]
        self._values[:, :, place] = values[:, :, 0]
        return self._keys[:, :, : place + 1], self._values[:, :, : place + 1]


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.mix = nn.Parameter(torch.tensor([1.0, 0.0]))  # shares of the states and of the first ones

    def forward(self, states: Tensor, first: Tensor, mask: Tensor | None, kept: _Kept | None) -> Tensor:
        batch, tokens, width = states.shape
        states = self.mix[0] * states + self.mix[1] * first
        heads = self.qkv(F.rms_norm(states, (width,))).view(batch, tokens, 3, self.heads, -1)
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, width of a head)
        queries, keys = F.rms_norm(queries, (queries.shape[-1],)), F.rms_norm(keys, (keys.shape[-1],))
        if kept is not None:
            keys, values = kept.extend(keys, values)
        looked = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=0.25)
        states = states + self.out(looked.transpose(1, 2).reshape(batch, tokens, width))
        inner = F.relu(self.up(F.rms_norm(states, (width,)))).square()
        return states + self.down(inner)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Penmanship:
    """A writer for wordings of one size: rows of tokens to strings of bits, and back."""

    writer: Writer
    bits: int
    length: int  # most tokens of a text
    batch: int  # texts coded and read at once; the last batch is padded

    def code(self, rows: Rows) -> list[int]:
        """The bits of each row, by arithmetic coding under the writer's own probabilities. All take `length` steps."""
        codes: list[int] = []
        for first in range(0, len(rows), self.batch):
            part = rows[first : first + self.batch]
            codes += self._code_batch([[*row, END][: self.length] for row in part])
        return codes

    def read(self, codes: Sequence[int]) -> Rows:
        """Tokens from the bits of each wording, then the likeliest ones, until a text ends or has `length` tokens."""
        rows: Rows = []
        for first in range(0, len(codes), self.batch):
            rows += self._read_batch(codes[first : first + self.batch])
        return rows

    def _code_batch(self, rows: Rows) -> list[int]:
        coders, rank = [TextCoder() for _ in rows], self.writer.rank
        cache, ids = Cache(self.writer.sizes, self.batch), torch.full((self.batch,), BEGIN)
        for place in range(self.length):
            edges = to_edges(to_frequencies(self.writer.step(ids, cache).numpy()))  # (batch, vocabulary + 1)
            for number, row in enumerate(rows):
                if place < len(row):
                    coders[number].push(edges[number], int(rank[row[place]]))
                    ids[number] = row[place]
        return [coder.code(self.bits) for coder in coders]

    def _read_batch(self, codes: Sequence[int]) -> Rows:
        readers, order = [TextReader(code, self.bits) for code in codes], self.writer.order
        cache, ids = Cache(self.writer.sizes, self.batch), torch.full((self.batch,), BEGIN)
        rows: Rows = [[] for _ in codes]
        unfinished = list(range(len(codes)))
        for _ in range(self.length):
            probabilities = self.writer.step(ids, cache)
            chosen = dict(zip(unfinished, probabilities[unfinished].argmax(1).tolist(), strict=True))
            decided = [number for number in unfinished if not readers[number].free]
            frequencies = to_frequencies(probabilities[decided].numpy())
            for number, counts, edges in zip(decided, frequencies, to_edges(frequencies), strict=True):
                chosen[number] = readers[number].read(counts, edges)
            for number in unfinished:
                ids[number] = order[chosen[number]]
                rows[number].append(int(ids[number]))
            unfinished = [number for number in unfinished if rows[number][-1] != END]
            if not unfinished:
                break
        return [row[:-1] if row and row[-1] == END else row for row in rows]
