"""The answer to POST /v1/rewrite: new texts, their guarantee and, if the client asks for it, a file with its card."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpbart.rewrite.account import Account
from dpbart.rewrite.describe import describe_texts, model_settings, run_facts
from dpbart.rewrite.rewriter import Rewriting
from dpbart.rewrite.settings import Settings
from dpbart.web.figures import guarantee_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ENGINE = "server, in one process"
_FILE = "rewritten.csv"


@dataclass(frozen=True)
class Rewritten:
    """How the answer to one request is written.

    Attributes:
        settings: the model and its budget.
        account: who is charged.
        card: whether the client wants a card.
        sign_key: signs the card; None if it is not signed.
    """

    settings: Settings
    account: Account
    card: bool
    sign_key: Ed25519PrivateKey | None

    def body(self, rewriting: Rewriting, run: str | None) -> str:
        """The JSON of the answer.

        Args:
            rewriting: the new texts.
            run: the name of the run in the ledger; None without one.
        """
        held = {
            "texts": list(rewriting.texts),
            "guarantee": guarantee_json(rewriting.guarantee),
            "recipe": rewriting.recipe,
            "model": self.settings.model,
        }
        if self.card:
            held |= self._file(rewriting, run)
        return json.dumps(held, ensure_ascii=False)

    def check(self) -> None:
        """Write an answer before anything is spent: if it cannot be written, nothing may be released."""
        facts = self.settings.described.facts
        self.body(Rewriting(("",), facts, facts.recipe), "none yet")

    def _file(self, rewriting: Rewriting, run: str | None) -> dict[str, Any]:
        """The new texts as a table, and its card. Both are strings, because every byte of them counts."""
        described, content = self.settings.described, _table(rewriting.texts)
        facts = run_facts(
            rewritten=len(rewriting.texts),
            seconds=None,  # the texts of several requests are rewritten together
            settings={**model_settings(described), "people": self.account.people is not None},
            output=hashlib.sha256(content.encode()).hexdigest(),
            engine=ENGINE,
            refused=0,
        )
        texts = len(rewriting.texts)
        card = describe_texts(self.account, described, recipe=rewriting.recipe, texts=texts, run=facts)
        if run is not None:
            words = f"recorded as a part of run {run}, which other requests share; this card counts this request alone"
            card = replace(card, person=replace(card.person, ledger=words))
        pages = {"json": card.as_json(self.sign_key), "html": card.as_html()}
        return {"output": {"name": _FILE, "content": content}, "card": pages}


def _table(texts: Sequence[str]) -> str:
    """CSV with one column. Its lines end in CR LF (RFC 4180), so that the csv module quotes a text with either."""
    written = io.StringIO()
    csv.writer(written).writerows([["text"], *([text] for text in texts)])
    return written.getvalue()
