"""Differentially private text rewriting under local DP.

from dpbart import Rewriter
Rewriter.load(epsilon=50).rewrite(["A text that must stay private."])
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dpbart.errors import (
    BadLedger,
    BadParameter,
    BadTable,
    BudgetExceeded,
    DpbartError,
    EngineFailed,
    MissingExtra,
    NotPrepared,
    NotResumable,
)

__version__ = "0.1.0"
DEFAULT_MODEL = "mini-code"

if TYPE_CHECKING:
    from dpbart.privacy.budget.ledger import Ledger
    from dpbart.privacy.card.card import Card
    from dpbart.privacy.guarantee import Guarantee
    from dpbart.rewrite.frames import batch_function, rewrite_frame
    from dpbart.rewrite.job import rewrite_file
    from dpbart.rewrite.request import Request
    from dpbart.rewrite.rewriter import Rewriter, Rewriting
    from dpbart.rewrite.settings import Settings

# numpy, pyarrow and torch are slow to import: `dpbart --help` and `import dpbart` must not wait for them.
_LOADED_WHEN_USED = {
    "Card": "dpbart.privacy.card.card",
    "Guarantee": "dpbart.privacy.guarantee",
    "Ledger": "dpbart.privacy.budget.ledger",
    "Request": "dpbart.rewrite.request",
    "Rewriter": "dpbart.rewrite.rewriter",
    "Rewriting": "dpbart.rewrite.rewriter",
    "Settings": "dpbart.rewrite.settings",
    "batch_function": "dpbart.rewrite.frames",
    "rewrite_file": "dpbart.rewrite.job",
    "rewrite_frame": "dpbart.rewrite.frames",
}

__all__ = [
    "DEFAULT_MODEL",
    "BadLedger",
    "BadParameter",
    "BadTable",
    "BudgetExceeded",
    "Card",
    "DpbartError",
    "EngineFailed",
    "Guarantee",
    "Ledger",
    "MissingExtra",
    "NotPrepared",
    "NotResumable",
    "Request",
    "Rewriter",
    "Rewriting",
    "Settings",
    "__version__",
    "batch_function",
    "rewrite_file",
    "rewrite_frame",
]


def __getattr__(name: str) -> object:
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module 'dpbart' has no attribute {name!r}")
    return getattr(import_module(_LOADED_WHEN_USED[name]), name)


def __dir__() -> list[str]:
    return __all__
