"""The family of code models: a text becomes one string of bits, its gist and then its wording.

Nothing here imports torch before a model is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dpbart.channels.code import CodeChannel, CodeTable, make_channel
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.code.settings import CodeSettings
from dpbart.privacy.card.card import ModelLine
from dpbart.privacy.mechanisms import NonPrivate, Response
from dpbart.privacy.shuffling.steps import Steps

if TYPE_CHECKING:
    from dpbart.models.bundle import Bundle
    from dpbart.models.code.model import CodeModel
    from dpbart.privacy.sampling import Entropy


@dataclass(frozen=True)
class CodeFamily:
    """Sentence encoder, tree of gists, and writer."""

    name: str = "dpbart-code"
    variants: Mapping[str, str] = field(
        default_factory=lambda: {"code": "small budgets: a text becomes one short code, which is then written out"}
    )
    mechanisms: tuple[str, ...] = (Response.name, NonPrivate.name)
    network: str = "dpbart.models.code.model"

    def channel(
        self, bundle: Bundle, *, mechanism: str, epsilon: float | None, delta: float, length: int
    ) -> CodeChannel:
        """Codes of the size that the model's table has for this budget."""
        if not 1 <= length <= bundle.longest:
            raise BadParameter(f"length must be from 1 to {bundle.longest} for '{bundle.name}', got {length}.")
        return make_channel(self.table(bundle), mechanism, epsilon=epsilon)

    def table(self, bundle: Bundle) -> CodeTable:
        """Which size a code has at each budget."""
        try:
            code = self._code(bundle)
            rows = tuple((float(epsilon), int(bits), int(gist)) for epsilon, bits, gist in code["table"])
            return CodeTable(rows, int(code["book_bits"]))
        except (KeyError, TypeError, ValueError) as error:
            raise NotPrepared(f"'{bundle.name}' has no table of code sizes that can be read.") from error

    def options(self, bundle: Bundle) -> Steps:
        """2 to the power of the bits that a code has at each budget."""
        return [(epsilon, 1 << bits) for epsilon, bits, _ in self.table(bundle).rows]

    def summary(self, bundle: Bundle) -> str:
        """Its codes, and for which budgets."""
        rows = self.table(bundle).rows
        return f"codes of {rows[0][1]} to {rows[-1][1]} bits for epsilon {rows[0][0]:g} to {rows[-1][0]:g}"

    def reads(self, bundle: Bundle, *, length: int) -> int:
        """Tokens of a text that are read: all windows of the sentence encoder, whatever is written."""
        sizes = self._config(bundle)["sentence"]
        return int(sizes["windows"]) * int(sizes["window"])

    def writes(self, bundle: Bundle, *, length: int) -> int:
        """As many tokens as its length."""
        return length

    def line(self, bundle: Bundle, *, length: int, beams: int | None) -> ModelLine:
        """What a card says about a model."""
        settings = self._settings(bundle, beams)
        return ModelLine(
            name=bundle.name,
            fingerprint=bundle.fingerprint,
            variant=bundle.facts.variant,
            length=length,
            decoding=(
                "a text of the book; or by the code's wording, then greedily; after few bits of wording, the best of "
                f"{settings.endings} sampled endings (temperature {settings.ending_temperature:g}, "
                f"top {settings.top_k})"
            ),
            public_data=bundle.facts.corpora,
            files=bundle.files,
            reads=self.reads(bundle, length=length),
            writes=self.writes(bundle, length=length),
            language=bundle.facts.language,
        )

    def load(
        self, bundle: Bundle, channel: CodeChannel, *, length: int, beams: int | None, entropy: Entropy
    ) -> CodeModel:
        """Both sides of a model; torch is imported here and not before."""
        from dpbart.models.code.model import load_code

        line = self.line(bundle, length=length, beams=beams)
        settings = self._settings(bundle, beams)
        model = load_code(bundle.folder, line, channel.size, settings=settings, entropy=entropy)
        bundle.check_unchanged()
        return model

    def _settings(self, bundle: Bundle, beams: int | None) -> CodeSettings:
        """The model's own settings; `beams` is the number of endings that are tried."""
        settings = CodeSettings(**self._code(bundle).get("settings", {}))
        return settings if beams is None else replace(settings, endings=beams)

    def _code(self, bundle: Bundle) -> dict[str, Any]:
        if bundle.facts.code is None:
            raise NotPrepared(f"'{bundle.name}' is a code model without the facts of its code (dpbart.json).")
        return bundle.facts.code

    def _config(self, bundle: Bundle) -> dict[str, Any]:
        config: dict[str, Any] = json.loads((bundle.folder / "config.json").read_text(encoding="utf-8"))
        return config


CODE = CodeFamily()
