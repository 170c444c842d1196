"""Make a model that is a book and a sentence encoder, without any training: minutes, for any domain or language.

Also the table of code sizes, which follows from epsilon and from the size of the book.

More bits say more about a text but are kept less often. If what a code says grows with its bits, bits times the
probability that the code is kept is largest near 2^bits = e^epsilon / (epsilon - 1). Long codes say more only in
proportion to about the square root of their bits, and the best is one bit shorter.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpbart.channels.code import CodeTable
from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle, ModelFacts
from dpbart.models.code.book import Book
from dpbart.models.code.foreign import ENCODER_FOLDER, ForeignReader
from dpbart.models.code.model import Networks, save_code
from dpbart.models.code.reader import DocumentReader
from dpbart.models.sentences import SentenceEncoderFiles
from dpbart.options.recipes import BookRecipe
from dpbart.prepare.code.cover import cover, covered, different, most_texts, vectors_of
from dpbart.prepare.code.sentences import Sentences

MOST_LINES = 50_000  # of a file, to choose from; of a larger file, a sample
LENGTH = 64  # tokens; sentences of a book are always written whole

EPSILONS = (
    *(0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 20, 25, 30, 35, 40, 50, 60, 70, 80, 100, 120, 150, 200),
)
WORDED_FROM = 24  # bits: with fewer, a wording says less than sentences of a book
_SLOWLY_FROM = 20  # epsilon: from here on, what a code says grows more slowly than its bits
_SEVERAL_FROM = 20  # bits: from here on, a code names several sentences
_PLACE_BITS = 14  # of each of three or more sentences, at least: a rare one says more than one more common one
_MOST_PLACES = 8
_NEAR = 4  # sentences that mean the same at a place
_NEAR_UP_TO = 14  # bits: a code of more bits names one sentence


def code_table(book_bits: int, *, worded: bool) -> CodeTable:
    """The size of a code at each budget, for a book of 2^book_bits sentences. It ends where all places are used.

    >>> code_table(9, worded=False).rows[-2:]
    ((50.0, 63, 7, 1), (60.0, 72, 8, 1))

    Args:
        book_bits: the bits of the whole book.
        worded: whether the model has a writer. Then the table ends with the largest budget.
    """
    rows: list[tuple[float, int, int, int]] = []
    for epsilon in EPSILONS:
        bits, places = bits_at(epsilon), 1
        form = worded and bits >= WORDED_FROM  # a bit that says which form a code has
        if bits >= min(_SEVERAL_FROM, 2 * book_bits):
            places = min(_MOST_PLACES, max(2, (bits - form) // min(_PLACE_BITS, book_bits)))
        if not worded or bits < WORDED_FROM:
            bits = places * min(bits // places, book_bits)
        size = (bits, places, _NEAR if places == 1 and bits <= _NEAR_UP_TO else 1)
        if not rows or rows[-1][1:] != size:
            rows.append((float(epsilon), *size))
        if not worded and bits == _MOST_PLACES * book_bits:
            break
    return CodeTable(tuple(rows), WORDED_FROM if worded else None)


def bits_at(epsilon: float) -> int:
    """The bits of a code near the optimum of theory.

    >>> [bits_at(epsilon) for epsilon in (1, 4, 10, 20, 50)]
    [2, 4, 11, 24, 66]
    """
    if epsilon <= 2:
        return 2
    return round((epsilon - math.log(epsilon - 1)) / math.log(2)) - (epsilon >= _SLOWLY_FROM)


def table_facts(table: CodeTable) -> dict[str, Any]:
    """A table as it stands in dpbart.json."""
    return {"table": [list(row) for row in table.rows], "worded_from": table.worded_from, "settings": {}}


def make_book(sentences: Sentences, recipe: BookRecipe, out: Path) -> Bundle:
    """Choose the sentences that cover the file, and write a model directory.

    Raises:
        BadParameter: The encoder is in `out`, or the file was not said to be public.
        BadTable: The file has too few different sentences.
        NotPrepared: There is no such encoder.
    """
    recipe.require_public()
    sentences.require_enough()
    files = SentenceEncoderFiles.find(recipe.encoder)
    lines = list(sentences.lines)
    draw = np.random.default_rng([recipe.seed, 8])
    if len(lines) > MOST_LINES:
        lines = [lines[number] for number in np.sort(draw.permutation(len(lines))[:MOST_LINES]).tolist()]
    reader = _reader(files, out)
    vectors = vectors_of(reader, [line.sentence for line in lines], title="Reading sentences")
    kept = different(vectors)
    left_out = {**sentences.left_out, "like others": len(lines) - len(kept)}
    replace(sentences, lines=tuple(lines[int(number)] for number in kept), left_out=left_out).require_enough()
    vectors = vectors[kept]
    bits = min(recipe.bits, len(kept).bit_length() - 1)
    own = np.sort(draw.permutation(len(kept))[: most_texts(len(kept))])
    chosen = cover(vectors, vectors[own], count=1 << bits, own=own)
    book = Book.of([lines[int(kept[number])] for number in chosen], vectors[chosen])
    table = code_table(bits, worded=False)
    facts = ModelFacts(
        variant="code",
        length=LENGTH,
        width=reader.width,
        language=recipe.language,
        code=table_facts(table),
        corpora=(sentences.file.provenance(),),
        recipe={
            "book": {
                **recipe.model_dump(exclude={"language"}),
                "encoder": files.identity,
                "bits": bits,
                "lines_read": len(lines),
                "left_out": {reason: count for reason, count in left_out.items() if count},
                "private_looking": {kind: len(numbers) for kind, numbers in sentences.private.items()},
            }
        },
        figures={"covered": round(covered(book.vectors, vectors[own]), 3)},
    )
    return save_code(Networks(reader, book), facts, out)


def _reader(files: SentenceEncoderFiles, out: Path) -> DocumentReader:
    """The encoder of a code model, or a copy of another one in the model directory."""
    if out.resolve() in (files.folder.resolve(), files.folder.resolve().parent):
        raise BadParameter(f"--out must differ from the encoder's own directory, got '{out}'.")
    if files.inside_code:
        reader = Networks.load(files.folder).reader
        if not isinstance(reader, ForeignReader):
            shutil.rmtree(out / ENCODER_FOLDER, ignore_errors=True)  # of an earlier model in the same place
            return reader
        files = SentenceEncoderFiles.find(str(files.folder / ENCODER_FOLDER))
    (out / "tokenizer.json").unlink(missing_ok=True)  # the directory is incomplete until this file is back
    shutil.rmtree(out / ENCODER_FOLDER, ignore_errors=True)
    for part in files.parts:
        target = out / ENCODER_FOLDER / part
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(files.folder / part, target)
    return ForeignReader.load(out / ENCODER_FOLDER)
