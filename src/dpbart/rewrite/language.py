"""Whether the texts of a file are plainly in another language than the model's, as a line for the operator.

Scripts decide first: the share of all letters. Languages that are written in Latin letters are told apart by their
commonest words. Both need a plain case, so short files, names, code and mixed files say nothing.

This is computed from the private texts and is not covered by the guarantee. The operator, who holds the texts, reads
one line about the whole file. It is no part of a plan, so it reaches no card, output, ledger or server.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from dpbart.card.record import ModelLine
from dpbart.tables.batch import Batch

_READ = 500  # characters of each text: enough to tell, so a long text costs no more than a short one
_WORD = re.compile(r"[^\W\d_]{2,}")

_DENSE = {"Han": 3, "Kana": 2, "Hangul": 2}  # about as many Latin letters say the same as one of these
_FEWEST_LETTERS = 100
_MOST_LETTERS, _OWN_LETTERS = 0.6, 0.3  # the least share of another script, and the largest of the model's own
_KANA = 0.1  # as many kana for each Han letter make a text Japanese

_FEWEST_WORDS = 40
_COMMON_WORDS = 0.1  # the least share of the common words of another language
_FEW_OWN_WORDS = 0.25  # times that share: the largest of the model's own
_NAME_WORDS = 6  # "de la", "van der": a list of names has some of the commonest words, but no others
_LESS_COMMON_WORDS = 0.05  # the least share without those
_CLOSE = 0.8  # a language with this part of the best share may be the right one too


@dataclass(frozen=True)
class Language:
    """A language that can be told from others."""

    name: str
    scripts: tuple[str, ...]  # its own, then others that its texts may use
    words: frozenset[str]  # the commonest; none if the script is enough


@dataclass(repr=False)
class Impression:
    """What the texts of a file look like: counts of letters and of listed words, which take the same room for any file.

    `see` is a visitor of a table. After it has seen all batches, `notice` is the line for the operator.
    """

    letters: Counter[str] = field(default_factory=Counter)  # by script
    words: int = 0
    common: Counter[str] = field(default_factory=Counter)  # those words that are in a list

    def see(self, batch: Batch) -> None:
        """Count the letters and words of a batch."""
        texts = unicodedata.normalize("NFC", "\n".join(text[:_READ] for text in batch.texts())).lower()
        for character, times in Counter(texts).items():
            if character.isalpha():
                script = _script_of(character)
                self.letters[script] += times * _DENSE.get(script, 1)
        words = _WORD.findall(texts)
        self.words += len(words)
        self.common.update(filter(_listed_words().__contains__, words))

    def notice(self, model: ModelLine) -> str | None:
        """A line if the texts are plainly in another language than the model's; None if not, or if that is unknown."""
        own = known_languages().get((model.language or "").lower())
        seen = None if own is None else self.other_than(own)
        if seen is None:
            return None
        return (
            f"These texts look like {seen}; '{model.name}' writes {model.language}. "
            "Make a model for another language with: dpbart prepare book"
        )

    def other_than(self, own: Language) -> str | None:
        """The language of the texts, in words, if it is plainly another one; None if it is not."""
        letters, total = _whole_scripts(self.letters), self.letters.total()
        if total < _FEWEST_LETTERS:
            return None
        script = max(letters, key=letters.__getitem__)
        if letters[script] < _MOST_LETTERS * total:
            return None
        if script == "Latin":
            return self._by_words(own)
        mine = sum(letters[each] for each in own.scripts)
        return None if script in own.scripts or mine > _OWN_LETTERS * total else _name_of(script)

    def _by_words(self, own: Language) -> str | None:
        if self.words < _FEWEST_WORDS:
            return None
        others = [language for language in known_languages().values() if language.words and language != own]
        shares = {language.name: self._share(language.words - own.words) for language in others}
        best = max(others, key=lambda language: shares[language.name])
        most, counted = shares[best.name], [self.common[word] for word in best.words - own.words]
        if most < _COMMON_WORDS or self._share(own.words - best.words) > _FEW_OWN_WORDS * most:
            return None
        if sum(sorted(counted)[:-_NAME_WORDS]) < _LESS_COMMON_WORDS * self.words:
            return None
        return " or ".join(sorted(name for name, share in shares.items() if share >= _CLOSE * most))

    def _share(self, words: frozenset[str]) -> float:
        return sum(self.common[word] for word in words) / self.words


@cache
def known_languages() -> Mapping[str, Language]:
    """The languages of the list, by their names in small letters."""
    lines = Path(__file__).with_name("languages.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {name.lower(): Language(name, tuple(scripts.split(",")), frozenset(words)) for scripts, name, *words in rows}


@cache
def _listed_words() -> frozenset[str]:
    return frozenset(word for language in known_languages().values() for word in language.words)


@lru_cache(maxsize=1 << 14)
def _script_of(letter: str) -> str:
    """The script of a letter, which is the first word of its Unicode name.

    >>> [_script_of(letter) for letter in "aßдλ語ひ한न"]
    ['Latin', 'Latin', 'Cyrillic', 'Greek', 'Han', 'Kana', 'Hangul', 'Devanagari']
    """
    first = unicodedata.name(letter, "").partition(" ")[0].title()
    return {"Cjk": "Han", "Hiragana": "Kana", "Katakana": "Kana"}.get(first, first)


def _whole_scripts(letters: Counter[str]) -> Counter[str]:
    """The letters by script, where the Han letters of Japanese texts count as kana."""
    if letters["Kana"] <= _KANA * letters["Han"]:
        return letters
    return Counter({**letters, "Kana": letters["Kana"] + letters["Han"], "Han": 0})


def _name_of(script: str) -> str | None:
    """The language of a script, in words; None for a script without a listed one."""
    names = [language.name for language in known_languages().values() if language.scripts[0] == script]
    if not names:
        return None
    return names[0] if len(names) == 1 else f"{names[0]} or another language in {script} letters"
