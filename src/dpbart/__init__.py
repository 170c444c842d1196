"""Differentially private text rewriting under local DP.

from dpbart import Rewriter
Rewriter.load(epsilon=2500, delta=1e-5).rewrite(["A text that must stay private."])
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"
DEFAULT_MODEL = "mini-pr-plus"
__all__ = ["DEFAULT_MODEL", "Rewriter", "Rewriting", "__version__", "batch_function", "rewrite_frame"]

if TYPE_CHECKING:
    from dpbart.rewrite.frames import batch_function, rewrite_frame
    from dpbart.rewrite.rewriter import Rewriter, Rewriting


def __getattr__(name: str) -> object:
    # torch is slow to import: `dpbart --help` and `import dpbart` must not wait for it.
    if name in ("Rewriter", "Rewriting"):
        from dpbart.rewrite import rewriter

        return getattr(rewriter, name)
    if name in ("batch_function", "rewrite_frame"):
        from dpbart.rewrite import frames

        return getattr(frames, name)
    raise AttributeError(f"module 'dpbart' has no attribute {name!r}")
