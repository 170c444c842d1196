"""How much of a text a rewriting kept: corpus BLEU, and the share of content words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import sacrebleu

# Words that occur in texts on any topic.
_WORDS = """
    a about after all also am an and any are as at be because been before but by can could d did do does doing for
    from get got had has have he her here him his how i if in into is it its just like ll m may me more most my no not
    now of off on one only or other our out over own re s she should so some such t than that the their them then
    there these they this those to too up us ve very was we were what when where which who whom why will with would
    yes you your
"""
FUNCTION_WORDS = frozenset(_WORDS.split())


@dataclass(frozen=True)
class Kept:
    """How much rewritten texts have in common with their originals."""

    bleu: float  # 0 to 100
    content_words: float  # 0 to 1: share of the originals' content words that are also in the rewritten text
    signature: str  # of BLEU


def measure_kept(originals: Sequence[str], rewritten: Sequence[str]) -> Kept:
    """Compare texts pair by pair.

    >>> round(measure_kept(["the cat sat on the mat"], ["the cat sat on a mat"]).content_words, 2)
    1.0
    """
    metric = sacrebleu.BLEU()
    score = metric.corpus_score(list(rewritten), [list(originals)])
    kept = total = 0
    for before, after in zip(originals, rewritten, strict=True):
        words = _content_words(before)
        kept += (words & _content_words(after)).total()
        total += words.total()
    return Kept(score.score, kept / max(1, total), str(metric.get_signature()))


def _content_words(text: str) -> Counter[str]:
    return Counter(word for word in re.findall(r"\w+", text.lower()) if word not in FUNCTION_WORDS)
