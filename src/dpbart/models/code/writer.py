"""The writer: a small causal language model of sentences that is given the vector of a gist.

It is read one token at a time, with what it needs of the tokens before kept. Both sides of the code do this on batches
of one size, so that the same probabilities come out to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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
    gist: int = 128  # entries of the vector of a gist
    depths: int = 32  # numbers of bits that a gist may have, 0 for no gist
    frequent: int = (
        2_500  # tokens of the first softmax; the others share one place in it and have a softmax of their own
    )


class Writer(nn.Module):
    """Tokens so far, and a gist, to the probabilities of the next token (in order of how frequent tokens are)."""

    order: Tensor  # (vocabulary,): the id at each place of that order
    rank: Tensor  # (vocabulary,): the place of each id

    def __init__(self, sizes: WriterSizes) -> None:
        super().__init__()
        self.sizes, width = sizes, sizes.width
        self.embed = nn.Embedding(sizes.vocabulary, width)
        self.place = nn.Embedding(sizes.places, width)
        self.gist = nn.Linear(sizes.gist, width, bias=False)
        self.depth = nn.Embedding(sizes.depths, width)
        self.gist2 = nn.Linear(width, width, bias=False)
        self.to_all = nn.Linear(width, width, bias=False)  # what the gist adds to every token
        self.to_out = nn.Linear(width, width, bias=False)  # and to what every token is predicted from
        self.blocks = nn.ModuleList([_Block(width, sizes.heads, sizes.inner) for _ in range(sizes.layers)])
        self.unembed = nn.Linear(width, sizes.vocabulary)
        self.gate = nn.Linear(width, 1)  # of all tokens that are not frequent
        self.register_buffer("order", torch.arange(sizes.vocabulary))
        self.register_buffer("rank", torch.arange(sizes.vocabulary))

    def topic(self, vectors: Tensor, depths: Tensor) -> Tensor:
        """What the writer reads of a gist, (n, width), from vectors (n, gist) and their bits (n,)."""
        topic = self.gist(vectors) * 8 + self.depth(depths)
        return topic + F.relu(self.gist2(F.rms_norm(topic, (self.sizes.width,)))).square() * 0.1  # type: ignore[no-any-return]

    def hidden(self, ids: Tensor, places: Tensor, topics: Tensor, mask: Tensor | None, cache: Cache | None) -> Tensor:
        """States that the next tokens are predicted from.

        Args:
            ids: (batch, tokens), BEGIN where a text begins.
            places: (batch, tokens), counted from 0 in each text.
            topics: (batch, tokens, width), of the text that each token belongs to.
            mask: which token may look at which, broadcast to (batch, heads, tokens, tokens); none with a cache.
            cache: keys and values of the tokens before; none in training.
        """
        width = self.sizes.width
        begins = (ids == BEGIN)[..., None]
        states = self.embed(ids) + self.place(places) + self.to_all(topics) + torch.where(begins, topics, 0.0)
        states = first = F.rms_norm(states, (width,))
        for number, block in enumerate(self.blocks):
            states = block(states, first, mask, None if cache is None else cache.layers[number])
        return F.rms_norm(states + self.to_out(topics), (width,))

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Nats of all targets together, from states (n, width) and ids (n,)."""
        frequent, ranks = self.sizes.frequent, self.rank[targets]
        rare = (ranks >= frequent).nonzero()[:, 0]
        weight, bias = self.unembed.weight, self.unembed.bias
        near = torch.cat([F.linear(hidden, weight[:frequent], bias[:frequent]), self.gate(hidden)], 1)
        nats = F.cross_entropy(near, ranks.clamp(max=frequent), reduction="sum")
        far = F.linear(hidden[rare], weight[frequent:], bias[frequent:])
        return nats + F.cross_entropy(far, ranks[rare] - frequent, reduction="sum")

    def probabilities(self, hidden: Tensor) -> Tensor:
        """Of every token that may be written, (n, vocabulary) in order of frequency, from states (n, width)."""
        frequent = self.sizes.frequent
        logits = self.unembed(hidden)
        logits[:, self.rank[list(UNWRITTEN)]] = -1e9
        near = torch.cat([logits[:, :frequent], self.gate(hidden)], 1).softmax(1)
        return torch.cat([near[:, :frequent], near[:, frequent:] * logits[:, frequent:].softmax(1)], 1)

    @torch.inference_mode()
    def step(self, ids: Tensor, topics: Tensor, cache: Cache) -> Tensor:
        """Read one token of each text, (batch,), and give the probabilities of the next, (batch, vocabulary)."""
        places = torch.full_like(ids, cache.length)[:, None]
        hidden = self.hidden(ids[:, None], places, topics[:, None], None, cache)
        cache.length += 1
        return self.probabilities(hidden[:, 0])


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
        """Add one token's keys and values, (batch, heads, 1, width of a head); all so far come back."""
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
