"""From public text and a teacher to a sentence encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from dpbart.models.code.sentence import SentenceEncoder, SentenceSizes
from dpbart.models.code.tree import Floats, unit
from dpbart.prepare.code.bag import start_bag
from dpbart.prepare.code.loop import round_to_half, run
from dpbart.prepare.code.minutes import Minutes
from dpbart.prepare.code.pieces import in_pieces
from dpbart.prepare.code.praise import praise_direction, projection
from dpbart.prepare.code.recipe import CodeRecipe
from dpbart.prepare.code.rows import Ids
from dpbart.prepare.code.teacher import Teacher
from dpbart.prepare.code.teaching import Student, make_lessons
from dpbart.prepare.code.texts import PublicText
from dpbart.prepare.code.vectors import vectors_of
from dpbart.prepare.fresh import fresh_sentence


class School:
    """A sentence encoder in the making, and the space of its teacher."""

    def __init__(self, teacher: Teacher, tokenizer: Tokenizer, recipe: CodeRecipe, folder: Path) -> None:
        self.teacher, self.tokenizer, self.recipe, self.folder = teacher, tokenizer, recipe, folder

    def teach(self, text: PublicText, minutes: Minutes) -> SentenceEncoder:
        """Fit a new encoder to the teacher's vectors, in the precision of a model file."""
        recipe = self.recipe
        draw = np.random.default_rng([recipe.seed, 7])
        lines = draw.permutation(len(text.lines))[: recipe.taught].tolist()
        rows = [*text.lines.picked(lines), *text.sentences.picked(range(len(text.sentences)))]
        with minutes.of("teacher"):
            vectors = in_pieces(
                len(rows),
                lambda part: self._taught(rows, part).astype(np.float16),
                self.folder / "teacher",
                title="Teacher",
            ).astype(np.float32)
            self._projection = projection(
                vectors, praise_direction(self.teacher), stretch=recipe.stretch, width=recipe.vector
            )
        sizes = SentenceSizes(
            vocabulary=self.tokenizer.get_vocab_size(),
            width=recipe.sentence_width,
            inner=2 * recipe.sentence_width,
            vector=recipe.vector,
        )
        inside = [text.sentence_numbers(number) for number in range(len(text.sizes))]
        documents = [range(len(lines) + each.start, len(lines) + each.stop) for each in inside]
        lessons = make_lessons(rows, documents, window=sizes.window, seed=recipe.seed)
        encoder, wanted = fresh_sentence(sizes, seed=recipe.seed), unit(vectors @ self._projection)
        state = self.folder / "sentence.pt"
        with minutes.of("sentence"):
            if not state.is_file():  # else the saved state has all weights
                start_bag(encoder, rows, wanted)
            student = Student(encoder, lessons, wanted, seed=recipe.seed)
            run(student, steps=recipe.sentence_steps, file=state, title="Sentence encoder")
        round_to_half(encoder)
        return encoder.eval()

    def cosine(self, encoder: SentenceEncoder, texts: list[str]) -> float:
        """How near an encoder comes to its teacher, on texts that it has not seen."""
        wanted = unit(self.teacher.vectors(texts) @ self._projection)
        rows = [np.array(each.ids[1:-1], np.int64) for each in self.tokenizer.encode_batch_fast(texts)]
        return float((vectors_of(encoder, rows) * wanted).sum(1).mean())

    def _taught(self, rows: list[Ids], part: range) -> Floats:
        decoded = self.tokenizer.decode_batch([rows[n].tolist() for n in part], skip_special_tokens=True)
        return self.teacher.vectors([each.strip() for each in decoded])
