"""What other methods' epsilons mean for a whole document, under dpbart's definition: any document against any other.

Most methods state epsilon for a token, a word or a sentence. A document of n of them goes through the mechanism n
times. So a probability of its output is a product of n factors, and each differs between two documents by at most
e^epsilon: n epsilon in all (sequential composition, Dwork and Roth 2014, theorem 3.14). Two more things decide:

- Softmax at temperature T over logits in [b1, b2] is the exponential mechanism (McSherry and Talwar 2007). The
  numerator of a probability changes by at most e^((b2 - b1) / T) between two inputs, and so does the denominator:
  2 (b2 - b1) / T.
- Metric privacy promises epsilon times the distance of two words. Over all words that is epsilon times the diameter of
  the vocabulary, and without a diameter there is no bound.

Some methods compare a word only with words of its own group. A document with a word of another group can have no output
in common, so against any other document nothing is promised; within the groups it is n epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpbart.errors import BadParameter
from dpbart.options.evidence import ClaimedEpsilon
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.scale import level_of, odds

_SAME_LENGTH = (
    "Holds between documents with the same number of {unit}s: the output has as many as the input, and shows it."
)
_OUTPUT_LENGTH = "The length is that of the output, in tokens of the model; count those of the longest output allowed."
_UNCLIPPED = "Logits that are not clipped have no bound, whatever the temperature. Pass --clip LOW,HIGH if they are."
_NO_DIAMETER = (
    "Epsilon is multiplied by the distance of two words, and nothing bounds a distance until the diameter of the "
    "vocabulary is given. Pass --diameter D, the largest distance of two words."
)


@dataclass(frozen=True)
class Derived:
    """What a rule makes of a claim.

    Attributes:
        unit: epsilon for one unit, against any other; infinite if nothing is promised.
        why: the derivation.
        grouped: epsilon for one unit against those of its own group alone, if that is all that is promised.
        notes: what else the reader must know.
    """

    unit: float
    why: str
    grouped: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Method:
    """A method, its paper, what it counts, and the rule for one unit."""

    paper: str
    unit: str
    needs: str  # the options of its claim
    rule: Callable[[ClaimedEpsilon], Derived]


@dataclass(frozen=True)
class Converted:
    """A claim for a whole document."""

    method: str
    paper: str
    unit: str
    length: int
    claimed: Derived

    @property
    def document(self) -> float:
        """Epsilon of the document, against any other."""
        return self.length * self.claimed.unit

    @property
    def grouped(self) -> float | None:
        """Epsilon against documents whose words are all of the same groups; None if there are no groups."""
        return None if self.claimed.grouped is None else self.length * self.claimed.grouped

    def as_dict(self) -> dict[str, object]:
        """As JSON has it: null stands for an infinite epsilon."""
        return {
            "method": self.method,
            "paper": self.paper,
            "unit": self.unit,
            "length": self.length,
            "epsilon_unit": _finite(self.claimed.unit),
            "epsilon_document": _finite(self.document),
            "epsilon_grouped": self.grouped,
            "private": math.isfinite(self.document),
            "level": level_of(Guarantee(self.document, 0.0)).name,
            "odds": odds(Guarantee(self.document, 0.0)),
            "why": self.claimed.why,
            "notes": list(self.claimed.notes),
        }

    def lines(self) -> list[tuple[str, str]]:
        """In words: a heading and a sentence each."""
        promised = Guarantee(self.document, 0.0)
        level = level_of(promised)
        counted = f"{self.length:,} {self.unit}{'s' if self.length != 1 else ''}"
        shown = [
            ("Method", f"{self.method}: {self.paper}"),
            (f"One {self.unit}", _epsilon(self.claimed.unit)),
            ("Why", self.claimed.why),
            ("Document", f"{_epsilon(self.document)} for {counted}, against any other document"),
        ]
        if self.grouped is not None:
            shown.append(("In groups", f"epsilon {self.grouped:.10g}, against documents with words of the same groups"))
        shown += [("Promise", f"{level.name}. {level.meaning}"), ("In words", odds(promised))]
        return shown + [("Note", note) for note in self.claimed.notes]


def convert(asked: ClaimedEpsilon) -> Converted:
    """What a claim is for a whole document.

    >>> convert(ClaimedEpsilon("per-word", epsilon=2.0, length=200)).document
    400.0
    >>> convert(ClaimedEpsilon("dp-prompt", temperature=1.5, clip=("0", "10"), length=120)).document
    1600.0
    """
    if asked.method is None:
        raise BadParameter("a method is needed. Pass --method NAME; 'dpbart epsilon --list' shows them.")
    method = METHODS[asked.method]
    given = {name for name in OPTIONS if getattr(asked, name) not in (None, ())}
    unused = sorted(given - set(method.needs.replace("|", " ").split()))
    if unused:
        raise BadParameter(f"{asked.method} has no --{unused[0]}. It takes: {_in_words(method)}.")
    return Converted(asked.method, method.paper, method.unit, asked.length, method.rule(asked))


OPTIONS = ("epsilon", "temperature", "clip", "diameter", "dimensions")


def _in_words(method: Method) -> str:
    return ", ".join(f"--{each}" for each in method.needs.replace("|", " ").split())


def _epsilon(value: float) -> str:
    return f"epsilon {value:.10g}" if math.isfinite(value) else "no bound: epsilon is infinite"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _given(asked: ClaimedEpsilon) -> float:
    if asked.epsilon is None:
        raise BadParameter(f"{asked.method} states an epsilon. Pass --epsilon E.")
    return asked.epsilon


def _plain(unit: str) -> Callable[[ClaimedEpsilon], Derived]:
    """An epsilon for each unit."""

    def rule(asked: ClaimedEpsilon) -> Derived:
        why = f"as claimed for one {unit}; the epsilons of all {unit}s add up, because their ratios are multiplied"
        return Derived(_given(asked), why, notes=(_SAME_LENGTH.format(unit=unit),))

    return rule


def _softmax(asked: ClaimedEpsilon) -> Derived:
    """2 (b2 - b1) / T for each token, from the temperature and the clipped logits."""
    if asked.temperature is None:
        raise BadParameter(f"{asked.method} samples at a temperature. Pass --temperature T and --clip LOW,HIGH.")
    if asked.range is None:
        return Derived(math.inf, "softmax at a temperature, over logits without a bound", notes=(_UNCLIPPED,))
    width = asked.range[1] - asked.range[0]
    why = f"2 (b2 - b1) / T = 2 x {width:g} / {asked.temperature:g}: numerator and denominator of softmax both change"
    return Derived(2 * width / asked.temperature, why, notes=(_OUTPUT_LENGTH,))


def _masked(asked: ClaimedEpsilon) -> Derived:
    """Epsilon for each token, which sets the temperature to 2 (b2 - b1) / epsilon; or the temperature itself."""
    if asked.epsilon is None:
        return _softmax(asked)
    if asked.temperature is not None or asked.clip:
        raise BadParameter("an epsilon sets the temperature. Pass --epsilon, or --temperature with --clip.")
    why = "as claimed for one token: the temperature is 2 (b2 - b1) / epsilon, over clipped logits"
    return Derived(asked.epsilon, why, notes=(_SAME_LENGTH.format(unit="token"),))


def _metric(asked: ClaimedEpsilon) -> Derived:
    """Epsilon times the diameter, for each word."""
    epsilon = _given(asked)
    if asked.diameter is None:
        return Derived(math.inf, "epsilon times the distance of two words, which has no bound", notes=(_NO_DIAMETER,))
    why = f"epsilon x diameter = {epsilon:g} x {asked.diameter:g}: no two words are farther apart"
    return Derived(epsilon * asked.diameter, why, notes=(_SAME_LENGTH.format(unit="word"),))


def _santext(asked: ClaimedEpsilon) -> Derived:
    """Pr[y | x] ~ e^(-epsilon d(x, y) / 2): numerator and denominator change by e^(epsilon d(x, x') / 2) each."""
    found = _metric(asked)
    note = "SanText+ leaves words that it calls not sensitive unchanged with some probability: this is not for them."
    return Derived(found.unit, found.why, notes=(*found.notes, note))


def _groups(unit: str, note: str) -> Callable[[ClaimedEpsilon], Derived]:
    """An epsilon for each unit, against those of its own group."""

    def rule(asked: ClaimedEpsilon) -> Derived:
        why = f"a {unit} becomes one of its own group, so one of another group can have no output in common with it"
        return Derived(math.inf, why, grouped=_given(asked), notes=(note, _SAME_LENGTH.format(unit=unit)))

    return rule


def _adept(asked: ClaimedEpsilon) -> Derived:
    """Claimed for an L1 sensitivity of 2 C. A vector of L2 norm C has an L1 norm of up to C sqrt(n): 2 C sqrt(n)."""
    if asked.dimensions is None:
        raise BadParameter("adept clips a vector. Pass --dimensions N, the entries of that vector.")
    why = (
        f"epsilon x sqrt(n) = {_given(asked):g} x sqrt({asked.dimensions}): the clip bounds the L2 norm by C, so the "
        "L1 sensitivity is 2 C sqrt(n), and the claim takes 2 C (Habernal 2021)"
    )
    return Derived(_given(asked) * math.sqrt(asked.dimensions), why)


_CUSTEXT = "A group is the words that share an output set."
_DP_ST = "The guarantee is limited to a neighbourhood of public triples. The number of triples shows."
METHODS: Mapping[str, Method] = {
    "per-token": Method("sequential composition, Dwork and Roth 2014", "token", "epsilon", _plain("token")),
    "per-word": Method("sequential composition, Dwork and Roth 2014", "word", "epsilon", _plain("word")),
    "per-sentence": Method("sequential composition, Dwork and Roth 2014", "sentence", "epsilon", _plain("sentence")),
    "metric": Method("metric (dx) privacy for words, Feyisetan et al. 2020", "word", "epsilon diameter", _metric),
    "exponential": Method("exponential mechanism, McSherry and Talwar 2007", "token", "temperature clip", _softmax),
    "dp-prompt": Method("DP-Prompt, Utpala, Hooker and Chen 2023", "token", "temperature clip", _softmax),
    "dp-paraphrase": Method("DP-Paraphrase, Mattern et al. 2022", "token", "temperature clip", _softmax),
    "dp-mlm": Method("DP-MLM, Meisenbacher et al. 2024", "token", "epsilon|temperature clip", _masked),
    "santext": Method("SanText, Yue et al. 2021", "word", "epsilon diameter", _santext),
    "custext": Method("CusText, Chen et al. 2023", "word", "epsilon", _groups("word", _CUSTEXT)),
    "dp-st": Method("DP-ST, Meisenbacher et al. 2025", "triple", "epsilon", _groups("triple", _DP_ST)),
    "adept": Method("ADePT, Krishna et al. 2021, corrected by Habernal 2021", "sequence", "epsilon dimensions", _adept),
}
