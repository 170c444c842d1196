"""The networks of a code model as they are trained, in torch. What they learn is stored, and used without torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpbart.models.code.reader import PAD, ReaderNetwork, ReaderSizes
from dpbart.models.code.weights import Arrays, packed
from dpbart.models.code.writer import Writer, WriterSizes


class ReaderTraining(nn.Module):
    """As `ReaderNetwork`, which has the shapes."""

    guess: Tensor  # (words, meaning): what a bag of words says of close reading, learned when the rest is done

    def __init__(self, sizes: ReaderSizes) -> None:
        super().__init__()
        self.sizes, width = sizes, sizes.width
        self.embed = nn.Embedding(sizes.vocabulary, width)
        self.place = nn.Parameter(torch.zeros(sizes.window, width))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList([_ReaderLayer(sizes) for _ in range(sizes.layers)])
        self.out = nn.Linear(width, sizes.meaning)
        self.bag = nn.Embedding(sizes.vocabulary, sizes.words)
        self.register_buffer("guess", torch.zeros(sizes.words, sizes.meaning))

    def taught(self) -> ReaderNetwork:
        """What it has learned so far, as it is stored and used."""
        return ReaderNetwork(self.sizes, _stored(self))

    def meaning(self, ids: Tensor) -> Tensor:
        """Read windows (n, at most window) closely: unit vectors (n, meaning); zeros for windows without a token."""
        there = ids != PAD
        seen = there | ~there.any(1, keepdim=True)  # an empty window attends to its padding
        states = self.norm(self.embed(ids) + self.place[: ids.shape[1]])
        for layer in self.layers:
            states = layer(states, seen[:, None, None, :])
        mean = (states * there[..., None]).sum(1) / there.sum(1, keepdim=True).clamp(min=1)
        return F.normalize(self.out(mean), dim=-1) * there.any(1, keepdim=True)

    def words(self, ids: Tensor) -> Tensor:
        """Skim windows (..., window): sums of the vectors of their words (..., words)."""
        return (self.bag(ids) * (ids != PAD)[..., None]).sum(-2)  # type: ignore[no-any-return]


class _ReaderLayer(nn.Module):
    def __init__(self, sizes: ReaderSizes) -> None:
        super().__init__()
        self.heads, inside = sizes.heads, sizes.heads * sizes.head
        self.qkv = nn.Linear(sizes.width, 3 * inside)
        self.out = nn.Linear(inside, sizes.width)
        self.norm = nn.LayerNorm(sizes.width, eps=1e-12)
        self.up = nn.Linear(sizes.width, sizes.inner)
        self.down = nn.Linear(sizes.inner, sizes.width)
        self.norm2 = nn.LayerNorm(sizes.width, eps=1e-12)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        n, window, _ = states.shape
        queries, keys, values = self.qkv(states).view(n, window, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        looked = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)  # (n, heads, window, head)
        states = self.norm(states + self.out(looked.transpose(1, 2).reshape(n, window, -1)))
        return self.norm2(states + self.down(F.gelu(self.up(states))))  # type: ignore[no-any-return]


class WriterTraining(nn.Module):
    """As `Writer`, without the rounding to whole numbers."""

    order: Tensor  # (vocabulary,): the id at each place of that order
    rank: Tensor  # (vocabulary,): the place of each id

    def __init__(self, sizes: WriterSizes) -> None:
        super().__init__()
        self.sizes, width = sizes, sizes.width
        self.embed = nn.Embedding(sizes.vocabulary, width)
        self.place = nn.Embedding(sizes.places, width)
        self.blocks = nn.ModuleList([_WriterBlock(width, sizes.heads, sizes.inner) for _ in range(sizes.layers)])
        self.last = nn.Parameter(torch.zeros(width))  # added to the states that predict the next token
        self.unembed = nn.Linear(width, sizes.vocabulary)
        self.gate = nn.Linear(width, 1)  # of all tokens that are not frequent
        self.register_buffer("order", torch.arange(sizes.vocabulary))
        self.register_buffer("rank", torch.arange(sizes.vocabulary))

    def taught(self) -> Writer:
        """What it has learned so far, as it is stored and used."""
        return Writer(self.sizes, _stored(self))

    def hidden(self, ids: Tensor, places: Tensor, mask: Tensor) -> Tensor:
        """The states that predict the next tokens.

        Args:
            ids: (batch, tokens), BEGIN where a text begins.
            places: (batch, tokens), counted from 0 in each text.
            mask: which token attends to which, broadcast to (batch, heads, tokens, tokens).
        """
        width = self.sizes.width
        states = first = F.rms_norm(self.embed(ids) + self.place(places), (width,))
        for block in self.blocks:
            states = block(states, first, mask)
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


class _WriterBlock(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.mix = nn.Parameter(torch.tensor([1.0, 0.0]))  # shares of the states and of the first ones

    def forward(self, states: Tensor, first: Tensor, mask: Tensor) -> Tensor:
        batch, tokens, width = states.shape
        states = self.mix[0] * states + self.mix[1] * first
        heads = self.qkv(F.rms_norm(states, (width,))).view(batch, tokens, 3, self.heads, -1)
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, width of a head)
        queries, keys = F.rms_norm(queries, (queries.shape[-1],)), F.rms_norm(keys, (keys.shape[-1],))
        looked = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=0.25)
        states = states + self.out(looked.transpose(1, 2).reshape(batch, tokens, width))
        inner = F.relu(self.up(F.rms_norm(states, (width,)))).square()
        return states + self.down(inner)  # type: ignore[no-any-return]


def _stored(network: nn.Module) -> Arrays:
    return packed({name: each.detach().cpu().numpy() for name, each in network.state_dict().items() if name != "rank"})
