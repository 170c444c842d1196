"""The family of code models: a text becomes one code, places in a book of public sentences or wording.

It computes with numpy and ONNX Runtime. Only a model with a sentence encoder of the transformers library uses torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbart.card.record import ModelLine
from dpbart.channels.code import CodeChannel, CodeTable, make_channel
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.bundle import Bundle
from dpbart.models.code.book import BookUse, Line, read_book
from dpbart.models.code.settings import MODEL_TYPE, CodeSettings
from dpbart.models.hub import read_config
from dpbart.privacy.mechanisms import NonPrivate, Response
from dpbart.privacy.shuffling.amplification import Steps

if TYPE_CHECKING:
    from dpbart.models.code.model import CodeBookReader, CodeModel
    from dpbart.privacy.sampling import Entropy


@dataclass(frozen=True)
class CodeFamily:
    """A sentence encoder, a book and, for larger budgets, a writer."""

    name: str = MODEL_TYPE
    mechanisms: tuple[str, ...] = (Response.name, NonPrivate.name)
    network: str = "dpbart.models.code.model"

    def channel(
        self, bundle: Bundle, *, mechanism: str, epsilon: float | None, delta: float, length: int, use: BookUse
    ) -> CodeChannel:
        """Codes of the size that the model's table gives for this budget and for so many sentences."""
        if not 1 <= length <= bundle.longest:
            raise BadParameter(f"length must be from 1 to {bundle.longest} for '{bundle.name}', got {length}.")
        sentences = self.sentences(bundle, use)
        return make_channel(
            self.table(bundle), mechanism, epsilon=epsilon, sentences=sentences, book_only=use.only, model=bundle.name
        )

    def forks(self, bundle: Bundle) -> bool:
        """Yes, unless its sentence encoder needs torch."""
        return "reader" in read_config(bundle.folder)

    def on_gpu(self, bundle: Bundle, device: str | None) -> bool:
        """Never: it is small."""
        return False

    def table(self, bundle: Bundle) -> CodeTable:
        """The size of a code at each budget."""
        try:
            code = self._code(bundle)
            rows = tuple(
                (float(epsilon), int(bits), int(places), int(near)) for epsilon, bits, places, near in code["table"]
            )
            return CodeTable(rows, None if code["worded_from"] is None else int(code["worded_from"]))
        except (KeyError, TypeError, ValueError) as error:
            raise NotPrepared(f"'{bundle.name}' has no table of code sizes that can be read.") from error

    def sentences(self, bundle: Bundle, use: BookUse) -> int:
        """How many sentences of the book may come out."""
        return len(use.chosen(read_book(bundle.folder), model=bundle.name))

    def book(self, bundle: Bundle) -> tuple[Line, ...]:
        """All lines, by area and topic."""
        return read_book(bundle.folder)

    def book_reader(self, bundle: Bundle, use: BookUse) -> CodeBookReader:
        """Its sentence encoder and the chosen part of its book."""
        from dpbart.models.code.model import CodeBookReader, Networks

        parts = Networks.load(bundle.folder, writes=False)
        bundle.check_unchanged()
        return CodeBookReader(parts.reader, parts.book.part(use, model=bundle.name), self._settings(bundle))

    def options(self, bundle: Bundle, use: BookUse) -> Steps:
        """2^bits codes at each budget."""
        table, sentences = self.table(bundle), self.sentences(bundle, use)
        sizes = [(row[0], table.size(row[0], sentences=sentences, book_only=use.only)) for row in table.rows]
        return [(epsilon, 1 << size.bits) for epsilon, size in sizes]

    def summary(self, bundle: Bundle) -> str:
        """Its book, and the budgets that it can use."""
        rows, sentences = self.table(bundle).rows, self.sentences(bundle, BookUse())
        return f"a book of {sentences:,} sentences, epsilon {rows[0][0]:g} to {rows[-1][0]:g}"

    def reads(self, bundle: Bundle, *, length: int) -> int:
        """All windows of the sentence encoder, whatever the output length."""
        sizes = read_config(bundle.folder).get("reader", {"windows": 4, "window": 64 + 2})
        return int(sizes["windows"]) * (int(sizes["window"]) - 2)

    def writes(self, bundle: Bundle, *, length: int) -> int:
        """At most `length` tokens of wording; sentences of the book are written whole."""
        return length

    def line(self, bundle: Bundle, *, length: int, beams: int | None, use: BookUse) -> ModelLine:
        """The card's entry about a model."""
        if beams is not None:
            raise BadParameter(f"'{bundle.name}' does not search while it writes. Leave out --beams.")
        sentences = self.sentences(bundle, use)
        wording = (
            f", or from codes of {self.table(bundle).worded_from} bits on wording; what does not fit is dropped, "
            f"names, numbers and rare words first in codes of up to {self._settings(bundle).names_from} bits"
        )
        return ModelLine(
            name=bundle.name,
            fingerprint=bundle.fingerprint,
            variant=bundle.facts.variant,
            length=length,
            decoding="sentences of the book" + ("" if use.only or self.table(bundle).worded_from is None else wording),
            public_data=bundle.facts.corpora,
            files=bundle.files,
            reads=self.reads(bundle, length=length),
            writes=self.writes(bundle, length=length),
            language=bundle.facts.language,
            sentences=sentences,
            areas=use.areas,
            topics=use.topics,
            book_only=use.only or self.table(bundle).worded_from is None,
        )

    def load(
        self,
        bundle: Bundle,
        channel: CodeChannel,
        *,
        length: int,
        beams: int | None,
        use: BookUse,
        entropy: Entropy,
        device: str | None = None,
    ) -> CodeModel:
        """Load both sides of a model. Nothing is drawn while it writes."""
        if device not in (None, "cpu"):
            raise BadParameter(f"'{bundle.name}' runs on the CPU, got the device {device!r}. Leave out --device.")
        from dpbart.models.code.model import load_code

        line = self.line(bundle, length=length, beams=beams, use=use)
        model = load_code(bundle.folder, line, channel.size, use=use, settings=self._settings(bundle))
        bundle.check_unchanged()
        return model

    def _settings(self, bundle: Bundle) -> CodeSettings:
        return CodeSettings(**self._code(bundle).get("settings", {}))

    def _code(self, bundle: Bundle) -> dict[str, Any]:
        if bundle.facts.code is None:
            raise NotPrepared(f"'{bundle.name}' is a code model without the facts of its code (dpbart.json).")
        return bundle.facts.code


CODE = CodeFamily()
