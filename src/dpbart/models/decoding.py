"""The search of a BART: the ids that `generate` of transformers would find, with less work.

- The beams of a text share its encoder states. Their keys and values are computed once for each text, and its beams
  are the query rows of one attention.
- The keys and values of past positions stay where they are. A mask says which of those of a text are a beam's own
  past, so the order of beams can change without a copy.
- A text leaves the batch when nothing that its beams could still write would beat the best finished text, and the last
  text takes its place. `generate` goes on until every text of the batch has `beams` finished ones.
- The first step has one row for each text, because its beams are still equal.
- The weights are laid out once for the products of the processor, and those of queries, keys and values are joined.

All of this sees only the private latent, so it may depend on the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import BartForConditionalGeneration
from transformers.models.bart.modeling_bart import BartAttention, BartDecoderLayer

from dpbart.models.search import BeamSearch

_BLOCK = 64  # ids; the best ids are looked for in the blocks with the largest maxima
_COLUMNS = 4096  # ids; the head writes the scores of so many at a time, which stay in the cache
_FEWEST_ROWS = 8  # from which on the layout of the weights takes less time than it saves
_NOT_YET = -1e9  # the score of a beam that does not exist yet; the figure is that of transformers

Tensor = torch.Tensor


@torch.inference_mode()
def search_ids(model: BartForConditionalGeneration, latent: Tensor, search: BeamSearch, *, length: int) -> Tensor:
    """Ids (texts, at most length + 1) for a private latent (texts, positions, width), with the start id first."""
    config, beams = model.config, search.beams
    start = config.decoder_start_token_id if search.start_id is None else search.start_id
    end = -1 if config.eos_token_id is None else config.eos_token_id
    ids = torch.full((len(latent), 1 + length), config.pad_token_id, device=latent.device)
    ids[:, 0] = start
    if not ids.numel() or not length:
        return ids
    steps = _Steps(model, latent, beams, length)
    shared = 1 if steps.vocabulary >= 2 * beams else beams  # beams in the first step; few ids cannot fill all others
    running = _Running.first(start, len(latent), shared, latent.device)
    best = _Best(ids, torch.arange(len(latent), device=latent.device), beams)
    for written in range(1, length + 1):  # ids in a beam after this step, without the start id
        log_probs = steps.log_probs(running.ids[:, :, -1].flatten())  # (texts * beams, padded vocabulary)
        options = running.options(log_probs, 2 * beams)
        ends = options.ids[:, :, -1] == end  # (texts, 2 * beams)
        if written == length:
            ends = torch.ones_like(options.parents, dtype=torch.bool)
        best.update(options, ends, written**search.length_penalty if beams > 1 else 1.0)
        if written == length:
            break
        running = options.unfinished(ends, beams)
        going = best.open(running.scores[:, 0], search, written, length)
        if not going.any():
            break
        holes, movers = _gaps(going)
        order = torch.arange(int(going.sum()), device=latent.device)
        order[holes] = movers
        running, best.rows, best.scores = running.of(order), best.rows[order], best.scores[order]
        steps.move(holes, movers)
        steps.follow(order, running.parents)
    return ids[:, : 1 + int(best.lengths.max())]


@dataclass(frozen=True)
class _Running:
    """Texts so far: ids (texts, beams, ids), the sums of their log probabilities, and the beams that they continue."""

    ids: Tensor
    scores: Tensor  # (texts, beams), in falling order
    parents: Tensor  # (texts, beams)

    @classmethod
    def first(cls, start: int, texts: int, beams: int, device: torch.device) -> _Running:
        scores = torch.full((texts, beams), _NOT_YET, device=device)
        scores[:, 0] = 0
        nobody = torch.zeros((texts, beams), dtype=torch.int64, device=device)
        return cls(torch.full((texts, beams, 1), start, device=device), scores, nobody)

    def options(self, log_probs: Tensor, count: int) -> _Running:
        """The `count` best continuations by one id.

        The best ids lie in the blocks with the largest maxima, so that most blocks are read only for their maximum.
        """
        texts, beams, _ = self.ids.shape
        blocks = log_probs.view(texts, beams, -1, _BLOCK)
        per_beam = blocks.shape[2]
        maxima = (blocks.amax(-1) + self.scores[:, :, None]).flatten(1)
        chosen = maxima.topk(min(count, maxima.shape[1])).indices  # (texts, blocks)
        within = blocks.flatten(1, 2).gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK))
        within = within + self.scores.gather(1, chosen // per_beam)[:, :, None]
        scores, places = within.flatten(1).topk(count)
        block = chosen.gather(1, places // _BLOCK)
        parents, last = block // per_beam, block % per_beam * _BLOCK + places % _BLOCK
        return _Running(torch.cat([_pick(self.ids, parents), last[:, :, None]], 2), scores, parents)

    def unfinished(self, ends: Tensor, beams: int) -> _Running:
        """The best options that do not end here."""
        scores, chosen = (self.scores + ends * _NOT_YET).topk(beams)
        return _Running(_pick(self.ids, chosen), scores, self.parents.gather(1, chosen))

    def of(self, texts: Tensor) -> _Running:
        return _Running(self.ids[texts], self.scores[texts], self.parents[texts])


class _Best:
    """The best finished text of each row, and the scores of its `beams` best ones."""

    def __init__(self, ids: Tensor, rows: Tensor, beams: int) -> None:
        self.ids = ids  # (all texts, 1 + length), filled in place
        self.lengths = torch.zeros_like(rows)  # of all texts, without the start id
        self.rows = rows  # the rows that are still searched
        self.scores = torch.full((len(rows), beams), -torch.inf, device=rows.device)  # (searched rows, beams)

    def update(self, options: _Running, ends: Tensor, divisor: float) -> None:
        """Take up the options that end here, if they are among the best `beams` options."""
        beams = self.scores.shape[1]
        new = (options.scores / divisor).masked_fill(~ends, -torch.inf)[:, :beams]
        score, place = new.max(1)
        better = score > self.scores[:, 0]
        found = options.ids[better, place[better]]  # (better texts, ids so far)
        self.ids[self.rows[better], : found.shape[1]] = found
        self.lengths[self.rows[better]] = found.shape[1] - 1
        self.scores = torch.cat([self.scores, new], 1).topk(beams).values

    def open(self, leading: Tensor, search: BeamSearch, written: int, length: int) -> Tensor:
        """Whether a row's text can still change, by the score of its leading beam.

        Log probabilities are at most 0, so a beam's score can only fall, and the largest divisor gives the most that
        a beam can reach.
        """
        penalty, beams = search.length_penalty, self.scores.shape[1]
        full = self.scores[:, -1] > -torch.inf
        if not search.early_stopping and beams > 1:  # the rule of transformers
            full &= leading / written**penalty <= self.scores[:, -1]
        reach = leading / (length if penalty > 0 else written + 1) ** penalty
        beaten = (self.scores[:, 0] > reach) & (beams > 1)
        going: Tensor = ~(full | beaten)
        return going


class _Steps:
    """The decoder, one position at a time, for the rows (texts * beams) that are still searched."""

    def __init__(self, model: BartForConditionalGeneration, latent: Tensor, beams: int, length: int) -> None:
        self.decoder = model.model.decoder
        self.vocabulary, self.width = model.lm_head.weight.shape
        self.greedy = beams == 1
        self.texts, self.position = len(latent), 0
        self.cross = torch.stack(  # (parts, texts, positions, width); the parts are keys and values of each layer
            [part(latent) for layer in self.decoder.layers for part in _keys_and_values(layer.encoder_attn)]
        )
        rows = len(latent) * beams
        many = rows >= _FEWEST_ROWS
        self.layers = [_Layer(layer, many) for layer in self.decoder.layers]
        bias = model.final_logits_bias[0].to(latent.dtype)
        parts = zip(model.lm_head.weight.split(_COLUMNS), bias.split(_COLUMNS), strict=True)
        self.head = [_Product(weight, bias, many) for weight, bias in parts]
        padded = -(-self.vocabulary // _BLOCK) * _BLOCK
        self.logits = latent.new_empty((rows, padded), dtype=torch.float32)  # whatever the weights have
        self.logits[:, self.vocabulary :] = -torch.inf  # ids after the last one never get chosen
        self.past = latent.new_empty(len(self.cross), len(latent), beams * length, self.width)  # slots: beams, steps
        self.mask = latent.new_zeros(len(latent), 1, 0)  # (texts, beams, slots): 0 for a beam's own past, else -inf

    def move(self, holes: Tensor, movers: Tensor) -> None:
        """Put the states of these texts in the place of others, which are finished."""
        used = self.mask.shape[2]
        self.past[:, holes, :used] = self.past[:, movers, :used]
        self.cross[:, holes] = self.cross[:, movers]

    def follow(self, texts: Tensor, parents: Tensor) -> None:
        """Go on with these texts. Each beam (texts, beams) has the past of its parent."""
        self.texts = len(texts)
        self.mask = _pick(self.mask[texts], parents)

    def log_probs(self, ids: Tensor) -> Tensor:
        """Log probabilities of the next id (rows, padded vocabulary), or for a greedy search the bare scores."""
        beams, used = len(ids) // self.texts, self.mask.shape[2]
        new = slice(used, used + beams)
        alone = torch.eye(beams, device=ids.device, dtype=self.mask.dtype).log()  # a beam sees its new slot only
        self.mask = torch.cat([self.mask.expand(-1, beams, -1), alone.expand(self.texts, -1, -1)], 2)
        place = self.decoder.embed_positions.weight[self.position + self.decoder.embed_positions.offset]
        states = self.decoder.layernorm_embedding(self.decoder.embed_tokens(ids) + place)  # (rows, width)
        for number, layer in enumerate(self.layers):
            parts = slice(2 * number, 2 * number + 2)
            queries, *own = layer.own(states).view(self.texts, beams, 3, -1).unbind(2)
            self.past[parts, : self.texts, new] = torch.stack(own)
            states = layer.attend(queries, self.past[parts, : self.texts, : new.stop], self.mask[:, None], states)
            states = layer.read(self.cross[parts, : self.texts], states)
            states = layer.feed(states)
        self.position += 1
        logits = self.logits[: len(ids)]
        for start, head in zip(range(0, self.vocabulary, _COLUMNS), self.head, strict=True):
            logits[:, start : min(start + _COLUMNS, self.vocabulary)] = head(states)
        return logits if self.greedy else torch.log_softmax(logits, -1, out=logits)


class _Product:
    """A linear map of rows. Its weights are laid out for the processor, where this takes less time than it saves."""

    def __init__(self, weight: Tensor, bias: Tensor, many: bool) -> None:
        self.weight, self.bias = weight, bias
        packs = many and weight.device.type == "cpu" and weight.dtype == torch.float32
        packs = packs and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight) if packs else None

    def __call__(self, rows: Tensor) -> Tensor:
        if self.packed is None:
            return torch.nn.functional.linear(rows, self.weight, self.bias)
        found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.packed, self.bias, "none", [], "")
        return found


class _Layer:
    """A layer of the decoder. States are (texts * beams, width)."""

    def __init__(self, layer: BartDecoderLayer, many: bool) -> None:
        own, across = layer.self_attn, layer.encoder_attn
        self.layer, self.heads = layer, own.num_heads
        maps = own.q_proj, *_keys_and_values(own)
        self.own = _Product(torch.cat([each.weight for each in maps]), torch.cat([each.bias for each in maps]), many)
        self.own_out, self.across, self.across_out, self.wide, self.narrow = (
            _Product(module.weight, module.bias, many)
            for module in (own.out_proj, across.q_proj, across.out_proj, layer.fc1, layer.fc2)
        )

    def attend(self, queries: Tensor, past: Tensor, mask: Tensor, states: Tensor) -> Tensor:
        """Each beam reads its own past: keys and values (2, texts, slots, width)."""
        seen: Tensor = self.layer.self_attn_layer_norm(states + self.own_out(self._seen(queries, past, mask)))
        return seen

    def read(self, cross: Tensor, states: Tensor) -> Tensor:
        """Each beam reads the keys and values (2, texts, positions, width) of its text's latent."""
        queries = self.across(states).view(cross.shape[1], -1, states.shape[1])
        read: Tensor = self.layer.encoder_attn_layer_norm(states + self.across_out(self._seen(queries, cross, None)))
        return read

    def feed(self, states: Tensor) -> Tensor:
        wide = self.layer.activation_fn(self.wide(states))
        fed: Tensor = self.layer.final_layer_norm(states + self.narrow(wide))
        return fed

    def _seen(self, queries: Tensor, parts: Tensor, mask: Tensor | None) -> Tensor:
        """All beams of a text are queries (texts, beams, width) to its keys and values."""
        query, keys, values = (each.unflatten(2, (self.heads, -1)).transpose(1, 2) for each in (queries, *parts))
        seen = scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        return seen.transpose(1, 2).flatten(2).flatten(0, 1)


def _keys_and_values(attention: BartAttention) -> tuple[torch.nn.Linear, torch.nn.Linear]:
    return attention.k_proj, attention.v_proj


def _gaps(going: Tensor) -> tuple[Tensor, Tensor]:
    """The places among the first rows that become free, and the rows behind them that move there."""
    count = int(going.sum())
    return (~going[:count]).nonzero().flatten(), count + going[count:].nonzero().flatten()


def _pick(ids: Tensor, beams: Tensor) -> Tensor:
    """The ids (texts, chosen, ids) of these beams (texts, chosen)."""
    return ids.gather(1, beams[:, :, None].expand(-1, -1, ids.shape[2]))
