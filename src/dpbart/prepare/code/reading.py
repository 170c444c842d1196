"""Teach the reader of a code model: it learns to give the vectors of a teacher, a larger public sentence encoder.

1. The teacher reads public lines, and some of them joined by two or three, as they stand together in a document.
2. Its vectors are cut to their widest directions.
3. The reader begins with layers of the teacher, the first, the middle and the last, without the attention heads and
   inner columns that matter least. If the teacher is no BERT or is too small for that, it begins from nothing.
4. Close reading and the bag of words each learn to be near the teacher's vectors, and close reading also to keep the
   angles among the texts of a step.
5. The reader learns what close reading gives for a bag of words, for windows that it only skims.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import Tensor, nn

from dpbart.errors import NotPrepared
from dpbart.files import write_whole
from dpbart.models.code.reader import PAD, Ids, Reader, ReaderNetwork, ReaderSizes, unit
from dpbart.models.code.tokens import WordPieces
from dpbart.models.code.weights import Floats, floats_of, packed
from dpbart.models.sentences import SentenceEncoderFiles, SentenceVectors, TransformerVectors
from dpbart.models.vectors import load_vectors
from dpbart.options.recipes import CodeRecipe
from dpbart.prepare.code.cover import vectors_of
from dpbart.prepare.code.networks import ReaderTraining
from dpbart.prepare.code.texts import in_pieces
from dpbart.prepare.training import Minutes, smoothed, train

_TEACHER_READS = 96  # tokens of a text
_JOINED = 10  # one text in so many is two or three lines
_POOL = 4_096  # texts that are sorted by length together, so that a batch needs little padding
_WARMUP = 200  # steps
_GUESS_RIDGE = 10.0  # of the regression from bags of words to close reading
_STEADY = 0.3  # share of the steps before the learning rate falls
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class Taught(NamedTuple):
    """A reader, and how to compare its teacher with it.

    Attributes:
        reader: has learned.
        directions: (teacher's width, meaning). A vector of the teacher times these is what close reading aims at.
    """

    reader: Reader
    directions: Floats

    def aims(self, vectors: Floats, teacher: Floats) -> Floats:
        """Vectors of the reader, with the teacher's in place of close reading."""
        sizes = self.reader.sizes
        meaning = np.sqrt(sizes.share) * unit(teacher @ self.directions)
        return unit(np.concatenate([meaning, vectors[:, sizes.meaning :]], 1).astype(np.float32))


def load_teacher(name: str) -> SentenceVectors:
    """A public sentence encoder: a directory or a hub id.

    Raises:
        NotPrepared: There is no such encoder, or it cannot be used.
    """
    return load_vectors(SentenceEncoderFiles.find(name), longest=_TEACHER_READS)


def lessons(lines: Sequence[str], sentences: Sequence[str], *, most: int, seed: int) -> list[str]:
    """What the teacher reads: a sample of lines, some neighbouring ones joined, and the sentences of the book."""
    draw = np.random.default_rng([seed, 7])
    single = draw.permutation(len(lines))[:most].tolist()
    starts = draw.permutation(max(1, len(lines) - 2))[: most // _JOINED].tolist()
    joined = [" ".join(lines[start : start + int(draw.integers(2, 4))]) for start in starts]
    return [*(lines[number] for number in single), *joined, *sentences]


def widest(vectors: Floats, count: int) -> Floats:
    """The directions in which vectors are widest, the widest first: (width, count)."""
    _, directions = np.linalg.eigh(vectors.T @ vectors / len(vectors))  # ascending
    kept: Floats = np.ascontiguousarray(directions[:, ::-1][:, :count], np.float32)
    return kept


# -- the beginning ----------------------------------------------------------------------------------------------------


def reader_tokenizer(teacher: SentenceVectors, lines: Sequence[str], file: Path, *, pieces: int) -> WordPieces:
    """The teacher's own tokenizer if a reader can use it, otherwise word pieces of the text; kept in the file."""
    if not file.is_file():
        theirs = teacher.tokenizer if isinstance(teacher, TransformerVectors) else None
        made = theirs if theirs is not None and _can_be_read(theirs) else _word_pieces(lines, pieces)
        made.no_truncation()
        made.no_padding()
        write_whole(file, made.to_str())
    return WordPieces(file.read_text(encoding="utf-8"))


def _can_be_read(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer is of BERT's kind and frames texts as BERT does."""
    try:
        WordPieces(tokenizer.to_str())
    except NotPrepared:
        return False
    known = [tokenizer.token_to_id(token) for token in ("[PAD]", "[CLS]", "[SEP]")]
    return known[0] == PAD and None not in known


def _word_pieces(lines: Sequence[str], count: int) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=count, special_tokens=list(_SPECIAL), show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def fresh_network(sizes: ReaderSizes, *, seed: int) -> ReaderTraining:
    """A network that knows nothing yet."""
    torch.manual_seed(seed)
    network = ReaderTraining(sizes)
    for module in network.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
    nn.init.normal_(network.place, std=0.02)
    return network


def start_from(teacher: SentenceVectors, network: ReaderTraining, directions: Floats) -> bool:
    """Put layers of the teacher into a fresh network. False, and nothing is changed, if they do not fit.

    Args:
        teacher: the encoder that taught.
        network: has the teacher's vocabulary and width.
        directions: (teacher's width, meaning), what is kept of the teacher's vectors.
    """
    config = getattr(teacher.model, "config", None) if isinstance(teacher, TransformerVectors) else None
    if config is None or config.model_type != "bert" or not isinstance(teacher, TransformerVectors):
        return False
    sizes = network.sizes
    same = (config.vocab_size, config.hidden_size) == (sizes.vocabulary, sizes.width)
    head = config.hidden_size // config.num_attention_heads
    enough = config.num_attention_heads >= sizes.heads and config.intermediate_size >= sizes.inner
    deep = config.num_hidden_layers >= sizes.layers and config.max_position_embeddings >= sizes.window
    if not (same and enough and deep and head == sizes.head):
        return False
    theirs = {name.removeprefix("bert."): each.cpu() for name, each in teacher.model.state_dict().items()}
    last = config.num_hidden_layers - 1
    taken = [round(place * last / max(1, sizes.layers - 1)) for place in range(sizes.layers)]
    weights = {
        "embed.weight": theirs["embeddings.word_embeddings.weight"],
        "place": theirs["embeddings.position_embeddings.weight"][: sizes.window]
        + theirs["embeddings.token_type_embeddings.weight"][0],
        "norm.weight": theirs["embeddings.LayerNorm.weight"],
        "norm.bias": theirs["embeddings.LayerNorm.bias"],
        "out.weight": torch.from_numpy(directions.T.copy()),
        "bag.weight": network.bag.weight.detach(),
        "guess": network.guess,
    }
    weights["out.bias"] = torch.zeros(sizes.meaning)
    for place, source in enumerate(taken):
        layer = {name.removeprefix(f"encoder.layer.{source}."): each for name, each in theirs.items()}
        weights |= {f"layers.{place}.{name}": each for name, each in _pruned(layer, sizes).items()}
    network.load_state_dict(weights)
    return True


def _pruned(layer: dict[str, Tensor], sizes: ReaderSizes) -> dict[str, Tensor]:
    """One layer of a BERT with its heads and inner columns of the largest norms."""
    out, value = layer["attention.output.dense.weight"], layer["attention.self.value.weight"]
    norms = out.view(len(out), -1, sizes.head).norm(dim=(0, 2)) * value.view(-1, sizes.head, len(out)).norm(dim=(1, 2))
    heads = norms.topk(sizes.heads).indices.sort().values
    rows = (heads[:, None] * sizes.head + torch.arange(sizes.head)).flatten()
    up, down = layer["intermediate.dense.weight"], layer["output.dense.weight"]
    columns = (up.norm(dim=1) * down.norm(dim=0)).topk(sizes.inner).indices
    parts = [f"attention.self.{name}" for name in ("query", "key", "value")]
    return {
        "qkv.weight": torch.cat([layer[f"{part}.weight"][rows] for part in parts]),
        "qkv.bias": torch.cat([layer[f"{part}.bias"][rows] for part in parts]),
        "out.weight": out[:, rows],
        "out.bias": layer["attention.output.dense.bias"],
        "norm.weight": layer["attention.output.LayerNorm.weight"],
        "norm.bias": layer["attention.output.LayerNorm.bias"],
        "up.weight": up[columns],
        "up.bias": layer["intermediate.dense.bias"][columns],
        "down.weight": down[:, columns],
        "down.bias": layer["output.dense.bias"],
        "norm2.weight": layer["output.LayerNorm.weight"],
        "norm2.bias": layer["output.LayerNorm.bias"],
    }


# -- the training -----------------------------------------------------------------------------------------------------


class Student:
    """A learner: the reader, with the teacher's vectors as targets."""

    def __init__(
        self, network: ReaderTraining, tokenizer: WordPieces, ids: Ids, wanted: Floats, recipe: CodeRecipe
    ) -> None:
        """Begin.

        Args:
            network: learns.
            tokenizer: of the reader.
            ids: (texts, window), padded.
            wanted: (texts, meaning), the teacher's vectors in their widest directions.
            recipe: rates and the size of a step.
        """
        self.network, self.ids, self.wanted, self.recipe = network.train(), ids, wanted, recipe
        self._framing = torch.tensor(framing(tokenizer))
        self._lengths = (ids != PAD).sum(1)
        tables = {id(self.network.embed.weight), id(self.network.bag.weight)}
        layers = [weight for weight in self.network.parameters() if id(weight) not in tables]
        self.rates = (recipe.reader_rate, recipe.reader_rate / 2, recipe.bag_rate)
        groups: list[dict[str, Any]] = [
            {"params": layers, "weight_decay": 0.01},
            {"params": [self.network.embed.weight], "weight_decay": 0.01},
            {"params": [self.network.bag.weight], "weight_decay": 0.0},
        ]
        self.adam = torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)
        self._near = self._words_near = math.nan  # smoothed cosines

    def take_step(self, step: int, steps: int) -> str:
        for group, rate in zip(self.adam.param_groups, self.rates, strict=True):
            group["lr"] = rate * pace(step, steps)
        numbers = self._batch(step)
        ids = torch.from_numpy(self.ids[numbers, : max(1, int(self._lengths[numbers].max()))])
        wanted = torch.from_numpy(self.wanted[numbers])  # (batch, meaning)
        bare = ids.masked_fill(torch.isin(ids, self._framing), PAD)
        meaning, words = self.network.meaning(ids), F.normalize(self.network.words(bare), dim=-1)
        most = F.normalize(wanted[:, : words.shape[1]], dim=-1)  # the widest of the directions
        near, words_near = (meaning * wanted).sum(1).mean(), (words * most).sum(1).mean()
        angles = (meaning @ meaning.T - wanted @ wanted.T).square().mean()
        self.adam.zero_grad()
        (1 - near + self.recipe.angles * angles + 1 - words_near).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.adam.step()
        self._near, self._words_near = smoothed(self._near, near.item()), smoothed(self._words_near, words_near.item())
        return f"cosine {self._near:.3f}, of words alone {self._words_near:.3f}"

    def state(self) -> dict[str, Any]:
        near = [self._near, self._words_near]
        return {"network": self.network.state_dict(), "adam": self.adam.state_dict(), "near": near}

    def restore(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self.adam.load_state_dict(state["adam"])
        self._near, self._words_near = state["near"]

    def _batch(self, step: int) -> Ids:
        """The texts of a step: one part of a pool that is sorted by length."""
        size, batch = min(_POOL, len(self.ids)), self.recipe.batch
        number, place = divmod(step, -(-size // batch))
        draw = np.random.default_rng([self.recipe.seed, 2, number])
        pool = draw.choice(len(self.ids), size, replace=False)
        pool = pool[np.argsort(self._lengths[pool], kind="stable")]
        first = int(draw.permutation(np.arange(0, size, batch))[place])
        return pool[first : first + batch]


def framing(tokenizer: WordPieces) -> list[int]:
    """The tokens around every window."""
    return [int(tokenizer.id_of(token) or 0) for token in ("[CLS]", "[SEP]")]


def pace(step: int, steps: int) -> float:
    """The learning rate as a share of its peak: it rises, stays, and falls like a cosine to 2%."""
    done = max(0.0, step / steps - _STEADY) / (1 - _STEADY)
    return min(1.0, (step + 1) / _WARMUP) * max(0.02, 0.5 * (1 + math.cos(math.pi * done)))


def teach(
    teacher: SentenceVectors,
    tokenizer: WordPieces,
    texts: Sequence[str],
    recipe: CodeRecipe,
    folder: Path,
    minutes: Minutes,
) -> Taught:
    """Let the teacher read the texts, and train a reader on its vectors; or resume.

    Args:
        teacher: a public sentence encoder.
        tokenizer: of the reader.
        texts: see `lessons`.
        recipe: sizes and rates.
        folder: for what is finished, to resume from.
        minutes: counts the time.
    """
    with minutes.of("teacher"):
        vectors = in_pieces(
            len(texts),
            lambda part: teacher.vectors([texts[number] for number in part]).astype(np.float16),
            folder / "teacher",
            title="Teacher",
        ).astype(np.float32)
    sizes = ReaderSizes(
        vocabulary=tokenizer.size,
        width=recipe.reader_width,
        layers=recipe.reader_layers,
        heads=recipe.heads,
        head=recipe.head,
        inner=recipe.inner,
        windows=recipe.windows,
        window=recipe.window,
        meaning=min(recipe.meaning, teacher.width),
        words=min(recipe.words, recipe.meaning, teacher.width),
    )
    directions = widest(vectors, sizes.meaning)
    network = fresh_network(sizes, seed=recipe.seed)
    start_from(teacher, network, directions)
    ids = Reader(tokenizer, network.taught()).ids(texts)
    with minutes.of("reader"):
        student = Student(network, tokenizer, ids, unit(vectors @ directions), recipe)
        train(student, steps=recipe.reader_steps, file=folder / "reader.pt", title="Reader")
    with torch.no_grad():
        network.bag.weight[[PAD, *framing(tokenizer)]] = 0  # they are in every text and tell nothing
    return Taught(Reader(tokenizer, network.taught()), directions)


def with_guesses(reader: Reader, lines: Sequence[str]) -> Reader:
    """A reader that guesses from a bag of words what close reading would give, learned on public lines."""
    meaning, words = np.split(vectors_of(reader, lines, title="Comparing both ways to read"), [reader.sizes.meaning], 1)
    close, bags = unit(meaning), unit(words)
    square = bags.T @ bags + _GUESS_RIDGE * np.eye(bags.shape[1], dtype=np.float32)
    return changed(reader, {"guess": np.linalg.solve(square, bags.T @ close)})


def changed(reader: Reader, weights: dict[str, Floats]) -> Reader:
    """A reader with other weights of these names. Its bag may be wider or narrower than before."""
    network = reader.network
    known = {name: floats_of(network.weights, name) for name in network.weights if not name.endswith(".scale")}
    known |= weights
    sizes = replace(reader.sizes, words=known["bag.weight"].shape[1])
    return Reader(reader.tokenizer, ReaderNetwork(sizes, packed(known)))
