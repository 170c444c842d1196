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
from dpbart.version import DEFAULT_MODEL, __version__

if TYPE_CHECKING:
    from dpbart.card.card import Card
    from dpbart.collect.frames import synthesize_frame
    from dpbart.collect.synthesize import synthesize_file
    from dpbart.collect.topics import Topics, read_topics
    from dpbart.ledger.ledger import Ledger
    from dpbart.options.collecting import CollectionBudget, CollectionRequest
    from dpbart.options.rewriting import Request
    from dpbart.options.settings import Settings
    from dpbart.privacy.guarantee import Guarantee
    from dpbart.rewrite.frames import batch_function, rewrite_frame
    from dpbart.rewrite.job import rewrite_file
    from dpbart.rewrite.rewriter import Rewriter, Rewriting

# numpy, pyarrow and torch are slow to import: `dpbart --help` and `import dpbart` must not wait for them.
_LOADED_WHEN_USED = {
    "Card": "dpbart.card.card",
    "CollectionBudget": "dpbart.options.collecting",
    "CollectionRequest": "dpbart.options.collecting",
    "Guarantee": "dpbart.privacy.guarantee",
    "Ledger": "dpbart.ledger.ledger",
    "Request": "dpbart.options.rewriting",
    "Rewriter": "dpbart.rewrite.rewriter",
    "Rewriting": "dpbart.rewrite.rewriter",
    "Settings": "dpbart.options.settings",
    "Topics": "dpbart.collect.topics",
    "batch_function": "dpbart.rewrite.frames",
    "read_topics": "dpbart.collect.topics",
    "rewrite_file": "dpbart.rewrite.job",
    "rewrite_frame": "dpbart.rewrite.frames",
    "synthesize_file": "dpbart.collect.synthesize",
    "synthesize_frame": "dpbart.collect.frames",
}

__all__ = [
    "DEFAULT_MODEL",
    "BadLedger",
    "BadParameter",
    "BadTable",
    "BudgetExceeded",
    "Card",
    "CollectionBudget",
    "CollectionRequest",
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
    "Topics",
    "__version__",
    "batch_function",
    "read_topics",
    "rewrite_file",
    "rewrite_frame",
    "synthesize_file",
    "synthesize_frame",
]


def __getattr__(name: str) -> object:
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module 'dpbart' has no attribute {name!r}")
    return getattr(import_module(_LOADED_WHEN_USED[name]), name)


def __dir__() -> list[str]:
    return __all__
