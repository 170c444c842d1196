"""The teacher's space, changed so that praise and blame lie further apart, and cut to its widest directions.

Quantised to 11 bits, a stretch of 2 costs .004 of similarity and wins .03 to .07 of F1 on a task about praise and
blame (Amazon stars).
"""

from __future__ import annotations

import numpy as np

from dpbart.models.code.tree import Floats
from dpbart.prepare.code.teacher import Teacher

_THINGS = [
    "movie",
    "film",
    "book",
    "phone",
    "camera",
    "food",
    "restaurant",
    "hotel",
    "service",
    "product",
    "album",
    "song",
    "game",
    "show",
    "story",
    "blender",
    "toaster",
    "knife",
    "pan",
    "laptop",
    "headset",
    "battery",
    "actor",
    "acting",
    "plot",
    "ending",
    "writing",
    "author",
    "dvd",
    "toy",
    "coffee",
    "machine",
    "vacuum",
    "staff",
    "room",
    "meal",
]
_PRAISE = (
    "The {} was great.",
    "I loved this {}.",
    "This {} is excellent, I highly recommend it.",
    "What a wonderful {}!",
    "One of the best {}s ever, very happy with it.",
    "The {} works perfectly and is worth every penny.",
    "I enjoyed the {} a lot, beautiful and touching.",
    "Very pleased with the {}, it exceeded my expectations.",
    "A brilliant, fun and well made {}.",
    "The {} is amazing, five stars.",
)
_BLAME = (
    "The {} was terrible.",
    "I hated this {}.",
    "This {} is awful, I do not recommend it.",
    "What a horrible {}!",
    "One of the worst {}s ever, very unhappy with it.",
    "The {} broke after a week and is a waste of money.",
    "I was bored by the {}, dull and predictable.",
    "Very disappointed with the {}, it did not live up to my expectations.",
    "A stupid, boring and badly made {}.",
    "The {} is useless, one star.",
)


def praise_direction(teacher: Teacher) -> Floats:
    """From blame to praise, whatever is praised, (width,): the mean difference, where things differ little."""
    praise = teacher.vectors([each.format(thing) for each in _PRAISE for thing in _THINGS])
    blame = teacher.vectors([each.format(thing) for each in _BLAME for thing in _THINGS])
    apart = praise.mean(0) - blame.mean(0)
    within = np.concatenate([praise - praise.mean(0), blame - blame.mean(0)])
    spread = within.T @ within / len(within)
    spread += 3 * np.trace(spread) / len(spread) * np.eye(len(spread))
    direction: Floats = np.linalg.solve(spread, apart).astype(np.float32)
    return direction / np.linalg.norm(direction)


def projection(vectors: Floats, direction: Floats, *, stretch: float, width: int) -> Floats:
    """(teacher's width, width): stretches the direction, then keeps the widest directions of the result."""
    stretched = np.eye(len(direction)) + stretch * np.outer(direction, direction)
    changed = vectors @ stretched
    changed /= np.maximum(np.linalg.norm(changed, axis=1, keepdims=True), 1e-12)
    _, widest = np.linalg.eigh(changed.T @ changed)  # ascending
    kept: Floats = (stretched @ widest[:, ::-1][:, :width]).astype(np.float32)
    return kept
