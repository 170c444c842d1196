"""Make a whole code model from public text, a teacher and a book: reader, writer, common words, order and table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from dpbart.errors import NotPrepared
from dpbart.files import digest_of, write_whole
from dpbart.models.bundle import Bundle, ModelFacts
from dpbart.models.code.book import Book, Line
from dpbart.models.code.model import WRITER_TOKENIZER, Networks, Pen, save_code
from dpbart.models.code.reader import Reader
from dpbart.models.code.tokens import BytePairs
from dpbart.models.code.writer import WriterSizes
from dpbart.models.sentences import SentenceVectors
from dpbart.models.text import SPECIAL_TOKENS
from dpbart.options.recipes import CodeRecipe
from dpbart.prepare.code.book import code_table, table_facts
from dpbart.prepare.code.cover import cover, covered, most_texts, vectors_of
from dpbart.prepare.code.praise import LANGUAGE, labelled, with_praise
from dpbart.prepare.code.reading import Taught, lessons, reader_tokenizer, teach, with_guesses
from dpbart.prepare.code.sentences import Sentences
from dpbart.prepare.code.texts import PublicText, TokenRows, common_words, gather, known_words, to_rows
from dpbart.prepare.code.writer import Author, PairFit, count_pairs, fresh_writer, start_writer, steps_of
from dpbart.prepare.corpus import CorpusFile
from dpbart.prepare.pretrain import train_tokenizer
from dpbart.prepare.training import Minutes, hold_to_recipe, train

_MOST_TOKENS = 20_000  # so that the tables of token pairs fit into 2 GB
_FREQUENT = 2_500  # tokens of the writer's first softmax, at most
_COVERED = 30_000  # texts that the book is ordered by, at most
_OWN = 0.2  # share of them that are sentences of the book
_FELT = 60_000  # lines that say which words praise, and what a bag of words means, at most


def make_code(
    files: Sequence[CorpusFile],
    teacher: SentenceVectors,
    book: Sentences,
    recipe: CodeRecipe,
    folder: Path,
    out: Path,
    *,
    held_out: Sequence[str],
    tokenizer_of: Bundle | None = None,
) -> Bundle:
    """Make every part that the training folder does not have yet, and write the model directory.

    Args:
        files: public text.
        teacher: a public sentence encoder.
        book: the sentences of the book, all of which are used.
        recipe: all settings.
        folder: for finished parts, to resume from.
        out: the model directory.
        held_out: public texts to measure on; nothing is measured if there are none.
        tokenizer_of: the writer takes the tokenizer of this model. None: train a new one.

    Raises:
        BadParameter: The folder was started with other settings.
        BadTable: There is too little text.
    """
    book.require_enough()
    taken = None if tokenizer_of is None else digest_of(_tokenizer_in(tokenizer_of))
    settings = {**recipe.held(), "teacher": teacher.identity, "book": book.file.sha256, "tokenizer": taken}
    hold_to_recipe(folder, settings, files)
    minutes = Minutes(folder)
    with minutes.of("text"):
        text = gather(files, folder, most=recipe.lines, seed=recipe.seed)
        tokenizer = _writer_tokenizer(files, recipe, folder, tokenizer_of)
        pieces = reader_tokenizer(teacher, text.lines, folder / "reader_tokenizer.json", pieces=recipe.pieces)
    sentences = [line.sentence for line in book.lines]
    taught = lessons(text.lines, sentences, most=recipe.taught, seed=recipe.seed)
    learned = teach(teacher, pieces, taught, recipe, folder, minutes)
    if recipe.language == LANGUAGE:
        with minutes.of("praise"):
            learned = with_praise(learned, labelled(), _some(text.lines, _FELT, seed=recipe.seed))
    reader = with_guesses(learned.reader, _some(text.lines, _FELT, seed=recipe.seed))
    author = _train_writer(to_rows(text.lines, tokenizer), tokenizer, recipe, folder, minutes)
    with minutes.of("book"):
        ordered = order_book(book.lines, Taught(reader, learned.directions), teacher, text, seed=recipe.seed)
    common = common_words(text.lines, least=recipe.common)
    parts = Networks(reader, ordered, Pen(tokenizer, author.writer.taught(), common, known_words()))
    facts = ModelFacts(
        variant="code",
        length=recipe.length,
        width=reader.width,
        language=recipe.language,
        code=table_facts(code_table(len(book.lines).bit_length() - 1, worded=True)),
        corpora=(*(file.provenance() for file in files), book.file.provenance()),
        recipe={
            "code": {
                **settings,
                "steps": steps_of(author, folder),
                "texts": author.seen,
                "texts_taught": len(taught),
                "lines_of_each_file": text.counts,
                "lines_kept": len(text.lines),
                "sentences": len(book.lines),
                "sentences_left_out": book.left_out,
                **minutes.facts(),
            }
        },
        figures=_figures(reader, ordered, teacher, held_out),
    )
    return save_code(parts, facts, out)


def order_book(lines: Sequence[Line], taught: Taught, teacher: SentenceVectors, text: PublicText, *, seed: int) -> Book:
    """All sentences, those first that cover public text and the book itself best, as the teacher reads them.

    A private text is read by the reader, so only one of the two vectors in a cosine is less than the teacher's. Public
    text may say little of what the book is for, and sentences of all areas keep their share. Where one is as good as
    another, chance decides.
    """
    shuffled = np.random.default_rng([seed, 9]).permutation(len(lines))
    lines = [lines[number] for number in shuffled.tolist()]
    reader, sentences = taught.reader, [line.sentence for line in lines]
    read = vectors_of(reader, sentences, title="Reading the book")
    vectors = taught.aims(read, teacher.vectors(sentences))
    most = min(_COVERED, most_texts(len(lines)))
    own = np.arange(min(len(lines), int(most * _OWN)))
    public = _some(text.lines, most - len(own), seed=seed)
    texts = np.concatenate([read[own], vectors_of(reader, public, title="Reading public text")])
    order = cover(vectors, texts, count=len(lines), own=np.concatenate([own, np.full(len(public), -1)]))
    return Book.of([lines[int(number)] for number in order], vectors[order])


def _some(lines: Sequence[str], most: int, *, seed: int) -> list[str]:
    """A sample of at most so many lines."""
    return [lines[number] for number in np.random.default_rng([seed, 8]).permutation(len(lines))[:most].tolist()]


def _train_writer(lines: TokenRows, tokenizer: BytePairs, recipe: CodeRecipe, folder: Path, minutes: Minutes) -> Author:
    """Train a writer to the last step, or resume. It begins with which token follows which."""
    vocabulary = tokenizer.size
    sizes = WriterSizes(
        vocabulary=vocabulary,
        width=recipe.writer_width,
        layers=recipe.writer_layers,
        inner=4 * recipe.writer_width,
        places=recipe.length + 2,
        frequent=min(_FREQUENT, vocabulary // 4),
    )
    writer = fresh_writer(sizes, seed=recipe.seed)
    if not (folder / "writer.pt").is_file():  # otherwise the saved state has all weights
        with minutes.of("pairs"):
            fit = PairFit(count_pairs(lines, vocabulary), recipe.writer_width, seed=recipe.seed)
            train(fit, steps=recipe.pair_steps, file=folder / "pairs.pt", title="Pairs of tokens")
        start_writer(writer, fit.tables)
    author = Author(writer, lines, recipe)
    with minutes.of("writer"):
        train(author, steps=steps_of(author, folder), file=folder / "writer.pt", title="Writer")
    return author


def _figures(reader: Reader, book: Book, teacher: SentenceVectors, held_out: Sequence[str]) -> dict[str, object]:
    """On held-out text: how near the reader's angles are to its teacher's, and how well the book covers it."""
    if not held_out:
        return {}
    own, theirs = vectors_of(reader, held_out, title="Measuring"), teacher.vectors(held_out)
    among = np.triu_indices(len(held_out), 1)
    likeness = np.corrcoef((own @ own.T)[among], (theirs @ theirs.T)[among])[0, 1] if len(held_out) > 2 else np.nan
    return {
        "held_out_texts": len(held_out),
        "correlation_with_teacher": None if np.isnan(likeness) else round(float(likeness), 3),
        "covered": round(covered(book.vectors, own), 3),
    }


def _writer_tokenizer(
    files: Sequence[CorpusFile], recipe: CodeRecipe, folder: Path, tokenizer_of: Bundle | None
) -> BytePairs:
    """The tokenizer of another model, or one trained on this text."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        if tokenizer_of is not None:
            made = Tokenizer.from_file(str(_tokenizer_in(tokenizer_of)))
        else:
            made = train_tokenizer(tuple(files), vocabulary=recipe.vocabulary)
        made.no_truncation()
        made.no_padding()
        write_whole(file, made.to_str())
    tokenizer = Tokenizer.from_file(str(file))
    first = tuple(tokenizer.id_to_token(number) for number in range(len(SPECIAL_TOKENS)))
    if first != SPECIAL_TOKENS or tokenizer.get_vocab_size() > _MOST_TOKENS:
        raise NotPrepared(
            f"the tokenizer must begin with {' '.join(SPECIAL_TOKENS)} and have at most {_MOST_TOKENS:,} tokens, "
            f"got {' '.join(str(token) for token in first)} and {tokenizer.get_vocab_size():,} tokens. "
            "Choose another --tokenizer-of, or leave it out."
        )
    return BytePairs(file.read_text(encoding="utf-8"))


def _tokenizer_in(bundle: Bundle) -> Path:
    """The file of a model's tokenizer; of a code model, that of its writer."""
    own = bundle.folder / WRITER_TOKENIZER
    return own if own.is_file() else bundle.folder / "tokenizer.json"
