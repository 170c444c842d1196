"""dpbart audit: the epsilon that many releases show, beside the one that is claimed."""

from __future__ import annotations

import json
import math
import textwrap
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Configured, json_option, options_of
from dpbart.options.evidence import AuditRequest

if TYPE_CHECKING:
    from dpbart.evidence.audit import Audit
    from dpbart.evidence.distinguish import LowerBound


@click.command(cls=Configured)
@options_of(AuditRequest, "asked")
@json_option
def audit(asked: AuditRequest, as_json: bool) -> None:
    """Audit the guarantee: a lower bound on epsilon from many releases, beside the one claimed.

    It releases two public texts again and again, through the code that releases, and measures how well the best
    attacker tells them apart. The texts are made up or from the model's book, or public ones of your own. The exit
    status is 1 if the promise is broken.

    \b
        dpbart audit --epsilon 4
        dpbart audit --epsilon 4 --control
        dpbart audit --epsilon 2 --release shuffled --people 1000 --delta 1e-6
        dpbart audit --epsilon 1 --release collection --json
        dpbart audit --epsilon 100 --model mini-pr-plus --seconds 60
    """
    from dpbart.evidence.audit import audit as run_audit

    found = run_audit(asked)
    if as_json:
        click.echo(json.dumps(found.as_dict(), ensure_ascii=False, allow_nan=False))
    else:
        for name, words in lines(found):
            click.echo(textwrap.fill(words, 100, initial_indent=f"{name:<13}", subsequent_indent=" " * 13))
    if found.caught:
        raise SystemExit(1)


def lines(found: Audit) -> list[tuple[str, str]]:
    """An audit in words: a heading and a sentence each."""
    what = {"single": "one text", "shuffled": "a shuffled file", "collection": "a collection"}[found.release]
    of_people = "" if found.people is None else f" of {found.people:,} people"
    shown = [
        ("Audited", f"{what}{of_people}, {found.model}"),
        ("Claimed", str(found.claimed)),
        ("Found", f"epsilon is at least {_down(found.audited)}, at confidence {found.confidence:g}"),
        ("By value", _bound(found.value)),
        ("By text", _bound(found.text)),
    ]
    if found.first is not None:
        shown.append(("By order", f"{_bound(found.first)}, from the first row"))
    if found.seen is not None:
        shown.append(("Noise seen", f"{_down(found.seen)} for the farthest two inputs, by the noise on all entries"))
    if found.exact is not None:
        local = "" if found.release == "single" else f", for one text before the shuffle: claimed {found.local:g}"
        shown.append(("Exact", f"{found.exact:.10g}, from the thresholds of the sampler{local}"))
    shown += [
        ("Trials", _trials(found)),
        ("Ceiling", _ceiling(found)),
        ("Pair", " / ".join(f'"{_short(text)}"' for text in found.pair)),
        ("Verdict", _verdict(found)),
    ]
    return shown


def _bound(bound: LowerBound) -> str:
    return (
        f"at least {_down(bound.epsilon)}: recognised {bound.right:,} of {bound.judged:,}, and took {bound.wrong:,} of "
        f"{bound.judged:,} others for it"
    )


def _trials(found: Audit) -> str:
    ended = ", when the time was up" if found.stopped else ""
    written = "" if found.written == found.trials else f"; {found.written:,} of them written out"
    return f"{found.trials:,} releases of each text{ended}{written}"


def _ceiling(found: Audit) -> str:
    most = f"{_down(found.ceiling)} is the most that so many trials can show"
    if found.ceiling >= found.claimed.epsilon:
        return f"{most}, and more than is claimed"
    further = ""
    if found.exact is None and found.seen is None:
        further = " More trials show more."
    elif found.exact is not None:
        further = " The exact figure has no such limit."
    return (
        f"{most}. The claimed epsilon allows events that are rarer, so the attackers cannot refute it: their bounds "
        f"end here, whatever the true epsilon is.{further}"
    )


def _verdict(found: Audit) -> str:
    broken = "The promise was broken on purpose" if found.control else "The promise is broken"
    if found.caught:
        return f"CAUGHT. {broken}: more gets through than is claimed."
    if found.control:
        return f"NOT CAUGHT. {broken}, and so few trials do not show it. Pass more --trials and --seconds."
    return "nothing contradicts the claim."


def _down(epsilon: float) -> str:
    """A lower bound with three decimals, rounded down.

    >>> _down(0.99999), _down(12.0)
    ('0.999', '12')
    """
    return f"{math.floor(epsilon * 1000) / 1000:g}"


def _short(text: str) -> str:
    return textwrap.shorten(text, 60, placeholder=" ...")
