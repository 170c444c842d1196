"""How many values a response has at each local epsilon."""

from __future__ import annotations

from collections.abc import Sequence

Steps = Sequence[tuple[float, int]]
"""(epsilon, options), each up to the next epsilon. Epsilons ascend."""
