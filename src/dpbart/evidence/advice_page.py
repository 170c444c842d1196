"""An advice as one HTML page that an officer can file: self-contained, without scripts.

It is ordered by the questions that officers must answer: those of the Article 29 Working Party (singling out,
linkability, inference), of the ICO (the motivated intruder) and of NIST (the pyramid). Whether an output counts as
anonymous under a law is for the reader to decide, and the page says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template

from dpbart.evidence.advise import COLLECTION, LABEL_EPSILON, SEED, SHUFFLED, SINGLE
from dpbart.evidence.recommend import ENOUGH, F1, LIMIT, SIMILARITY, TOPICS, Advice, Option
from dpbart.privacy.facts import best_guess
from dpbart.privacy.guarantee import few_digits
from dpbart.privacy.scale import LEVELS, level_of, odds, often
from dpbart.version import __version__

WP216 = "Article 29 Working Party, Opinion 05/2014 on Anonymisation Techniques (WP216)"
ICO = "ICO, Anonymisation guidance: the motivated intruder test"
NIST = "NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees (2025)"
_COLOURS = {SINGLE: "#1f5fa8", SHUFFLED: "#a86a00", COLLECTION: "#1b6e3c"}
_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 220, 48, 12  # of the picture, in its own units


def advice_page(advice: Advice) -> str:
    """The page, with all values escaped."""
    level = LEVELS[-2] if advice.best is None else level_of(advice.best.person)
    sections = (
        ("What each release keeps, and what it promises", _table(advice) + _picture(advice)),
        ("Singling out: can somebody be picked out?", _paragraphs(_singling_out(advice))),
        ("Linkability: can two texts of one person be connected?", _paragraphs(_linkability(advice))),
        ("Inference: can something be concluded about a person?", _paragraphs(_inference(advice))),
        ("The motivated intruder", _paragraphs(_intruder(advice))),
        ("The pyramid of NIST SP 800-226", _facts(_pyramid(advice))),
        ("What would change this advice", _list(advice.changes)),
        ("Thresholds, and where they come from", _facts(_thresholds())),
        ("How this was measured", _paragraphs(_method(advice))),
    )
    return _PAGE.substitute(
        colour=level.colour,
        background=level.background,
        headline=escape(advice.headline),
        reasons=_paragraphs(advice.reasons),
        file=escape(_file(advice)),
        sections="\n".join(f"<h2>{escape(title)}</h2>\n{body}" for title, body in sections),
        version=escape(__version__),
    )


def _file(advice: Advice) -> str:
    file = advice.file
    trust = "somebody is trusted with all texts" if file.trusted_curator else "nobody is trusted with all texts"
    texts = "one text" if file.texts_per_person == 1 else f"up to {file.texts_per_person:,} texts"
    return f"For a private file of {file.people:,} people who give {texts} each; {trust}."


def _table(advice: Advice) -> str:
    base, rows = advice.figures.baseline, []
    for option in advice.options:
        found, singled = option.found, option.found.attacks.get("singling out")
        cells = [
            found.release,
            f"{found.epsilon:g}",
            f"{few_digits(option.person.epsilon)} ({level_of(option.person).name})",
            _number(found.similarity),
            f"{_number(found.f1)} ({_number(found.control_f1)})" if base.labels else _number(found.topics),
            f"{option.kept:.0%}{' ✓' if option.does_the_task else ''}",
            "–" if singled is None else f"{singled['score']:.0%} (at most {singled['bound']:.0%})",
        ]
        mark = ' class="here"' if option is advice.best else ""
        rows.append(f"<tr{mark}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    names = ("release", "epsilon", "epsilon of a person", "similarity")
    last = ("F1 (shuffled labels)" if base.labels else "topics", "kept", "singled out of 100")
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in (*names, *last))
    body = "\n".join(rows)
    table = f'<table class="figures">\n<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>\n</table>'
    return f'<div class="wide">{table}</div>'


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _picture(advice: Advice) -> str:
    """What is kept over epsilon: of a text or, in a collection, of a person. Budgets stand at equal distances."""
    places = sorted({each.found.epsilon for each in advice.options})

    def point(option: Option) -> tuple[float, float]:
        across = places.index(option.found.epsilon) / max(1, len(places) - 1)
        return _LEFT + across * (_WIDTH - _LEFT - 20), _TOP + (1 - min(1.0, option.kept)) * _HEIGHT

    drawn = [f'<text x="4" y="{_TOP + 8}">100%</text><text x="4" y="{_TOP + _HEIGHT}">0%</text>']
    for place in places:
        x = _LEFT + places.index(place) / max(1, len(places) - 1) * (_WIDTH - _LEFT - 20)
        drawn.append(f'<text x="{x:.0f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{place:g}</text>')
    for kind, colour in _COLOURS.items():
        own = [each for each in advice.options if each.found.release == kind]
        if not own:
            continue
        line = " ".join("{:.0f},{:.0f}".format(*point(each)) for each in own)
        drawn.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for each in own:
            x, y = point(each)
            filled = colour if each.promises_enough else "#fff"
            drawn.append(
                f'<circle cx="{x:.0f}" cy="{y:.0f}" r="5" fill="{filled}" stroke="{colour}" stroke-width="2"/>'
            )
    for measure in dict.fromkeys(each.measure for each in advice.options):
        y = _TOP + (1 - ENOUGH[measure]) * _HEIGHT
        drawn.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.0f}" y2="{y:.0f}" stroke="#777" stroke-dasharray="4 4"/>'
        )
    names = ", ".join(f'<span style="color:{colour}">{kind}</span>' for kind, colour in _COLOURS.items())
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_TOP + _HEIGHT + 24}" role="img" aria-label="What is kept by epsilon">'
        f"{''.join(drawn)}</svg><figcaption>What is kept of what the originals give beyond chance, over epsilon: "
        f"{names}. "
        f"Filled points promise a person at most epsilon {LIMIT.most:g}. The dashed line is what is asked for."
        "</figcaption></figure>"
    )


def _shown(advice: Advice) -> Option | None:
    """The release that is described: the recommended one, or else the strongest promise that does the task."""
    doing = [each for each in advice.options if each.does_the_task]
    return advice.best or min(doing, key=lambda each: each.person.epsilon, default=None)


def _singling_out(advice: Advice) -> list[str]:
    option = _shown(advice)
    said = [f"{WP216}: singling out is to isolate some or all of the records that identify an individual."]
    if option is None:
        return [*said, "No release that was tried does the task, so none is described here."]
    if option.found.release == COLLECTION:
        return [
            *said,
            f"{_begun(option)} holds no row of anybody: every row is drawn from counts with noise. Whether a "
            "person is in "
            f"the file at all is guessed right {often(best_guess(option.person, candidates=2))}; 50% is chance.",
        ]
    singled = option.found.attacks["singling out"]
    return [
        *said,
        f"{_begun(option)}: an attacker who has the original and 99 others finds the source of an output "
        f"{singled['score']:.0%} of the time ({singled['chance']:.0%} is chance, {singled['originals']:.0%} without "
        f"noise, and {_share(singled['phantom'])} by a similar text that was not in the file). By the guarantee, "
        f"nobody can exceed {singled['bound']:.0%} on average. The best matcher here: {singled['by']}.",
    ]


def _linkability(advice: Advice) -> list[str]:
    option, texts = _shown(advice), advice.file.texts_per_person
    said = [f"{WP216}: linkability is to link two or more records of one individual, or of a group of them."]
    if option is None:
        return said
    if option.found.release == COLLECTION:
        return [*said, "There are no records to connect: a person has one vote in the counts, over all their texts."]
    order = "The output has no ids and a random order. " if option.found.release == SHUFFLED else ""
    member = option.found.attacks["membership"]
    return [
        *said,
        f"{order}The promise already counts all {texts:,} texts of a person as connected: epsilon "
        f"{few_digits(option.person.epsilon)}, delta {few_digits(option.person.delta)} for all of them together.",
        f"Connecting an original to the file: whether a text was in it is told with an area under the curve of "
        f"{member['score']:.2f} ± {member['spread']:.2f} (0.5 is chance, {member['originals']:.2f} without noise).",
    ]


def _inference(advice: Advice) -> list[str]:
    option, base = _shown(advice), advice.figures.baseline
    said = [f"{WP216}: inference is to deduce an attribute from others with significant probability."]
    if option is None:
        return said
    if base.labels and option.found.label_guessed is not None:
        said.append(
            "The label of a text can be guessed from its rewriting with a macro F1 of "
            f"{option.found.label_guessed:.2f} ({base.majority_f1:.2f} is the most frequent label, {base.f1:.2f} "
            "from originals). This is what the task "
            "needs. If the label is what must stay secret, choose a smaller epsilon, or a collection."
        )
    elif option.found.release == COLLECTION:
        said.append(
            "What is true of many people can be inferred from the output: that is its purpose. What is true of one "
            "person hardly changes it, so no conclusion about a person depends on whether they took part."
        )
    return [*said, f"Whatever the attribute: {odds(option.person, what='possibilities')}"]


def _intruder(advice: Advice) -> list[str]:
    option = _shown(advice)
    said = [
        f"{ICO}: could a motivated and reasonably competent person identify somebody, without knowing them at first, "
        "from sources that are open to everybody?"
    ]
    if option is None:
        return said
    return [
        *said,
        "The guarantee holds against every intruder, whatever they know, own or can compute, now and later. "
        "The attacks "
        "on this page are such intruders: they hold the original texts, know the model, and choose the best of several "
        f"methods. {level_of(option.person).meaning}",
        "It does not cover other columns that are released, nor that somebody is in the file where its "
        "members are known.",
    ]


def _pyramid(advice: Advice) -> list[tuple[str, str]]:
    option, file = _shown(advice), advice.file
    whole = option is not None and option.found.release == COLLECTION
    trust = "a trusted curator holds all texts" if whole else "local: each text is made private on its own"
    return [
        ("Epsilon", "none recommended" if option is None else f"{option.person} for a person"),
        ("Unit of privacy", f"a person with all their texts, up to {file.texts_per_person:,}"),
        ("Algorithms and correctness", "exact samplers, and an audit by 'dpbart audit'; the card names each proof"),
        ("Utility", "see the table: kept, F1 and similarity, each with its control"),
        ("Bias", "not measured: what few people write about is the first to get lost in the noise"),
        ("Query model", "one release; each further one of the same texts adds to epsilon, and a ledger counts them"),
        ("Threat model", trust),
        ("Side channels", "the time that a run takes is not protected, nor the machine where it runs"),
        (
            "Security and access control",
            "yours to ensure: who can read the private file, the order of rows and the ledger",
        ),
        ("Data collection exposure", "yours to decide: what is not collected needs no protection"),
    ]


def _thresholds() -> list[tuple[str, str]]:
    scale = "; ".join(f"{each.name} up to {each.most:g}: {each.reason}" for each in LEVELS[:4])
    return [
        (
            "Promise",
            f"At most epsilon {LIMIT.most:g} for a person ('{LIMIT.name}' on the scale of the privacy card). "
            f"{LIMIT.reason} "
            f"The levels follow from arithmetic on the guarantee: {scale}",
        ),
        (
            "Task",
            f"At least {ENOUGH[F1]:.0%} of the F1 that the originals give beyond chance; without labels "
            f"{ENOUGH[SIMILARITY]:.0%} "
            f"of the similarity beyond that of other texts, or {ENOUGH[TOPICS]:.0%} of a collection's topics. "
            "These are "
            "choices of dpbart. No authority sets them: if you need more or less, read the table.",
        ),
        ("Preference", "Of all releases that meet both, the one with the smallest epsilon for a person."),
        ("Questions", f"{WP216}; {ICO}; {NIST}. dpbart takes no number from them."),
    ]


def _method(advice: Advice) -> list[str]:
    figures, base = advice.figures, advice.figures.baseline
    own = (
        " It is the encoder inside the model itself, so it flatters the texts of that model."
        if figures.own_judge
        else ""
    )
    labels = (
        f"The classifier is a logistic regression on words. It learns from released rows with {base.labels} "
        "labels, and "
        f"is tested on {base.tested:,} originals. Labels of single texts are released as they are; those of "
        "shuffled rows "
        f"are randomised at epsilon {LABEL_EPSILON:g}, which counts in their promise. An F1 of so few texts "
        "has an error "
        "of some hundredths, and more training texts give a higher one."
    )
    return [
        f"On public texts, never on the private ones: {base.sampled:,} of {base.texts:,}, chosen at random "
        "with the seed "
        f"{SEED}. Everything here holds for texts like these. If the private ones are different, so are the "
        "figures; the "
        "promises are the same.",
        *([labels] if base.labels else []),
        f"Model: {figures.model}. Similarity is the cosine of sentence vectors of {figures.judge}.{own}",
        "This page does not say whether an output is anonymous under the law that applies to you. That is "
        "your decision, "
        "and these are figures for it.",
    ]


def _begun(option: Option) -> str:
    return option.words[0].upper() + option.words[1:]


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.0%}"


def _paragraphs(lines: Sequence[str]) -> str:
    return "\n".join(f"<p>{escape(line)}</p>" for line in lines)


def _list(lines: Sequence[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escape(line)}</li>" for line in lines) + "\n</ul>"


def _facts(lines: Sequence[tuple[str, str]]) -> str:
    rows = "\n".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(words)}</td></tr>' for name, words in lines)
    return f"<table>\n{rows}\n</table>"


_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Which epsilon? An advice</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #1a1a1a; background: #fff; }
h1 { margin-bottom: .6rem; }
h2 { margin-top: 2.2rem; }
.promise { padding: .4rem 1rem; border-left: .4rem solid $colour; background: $background; }
.promise .headline { font-size: 1.25rem; font-weight: 700; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid #ddd; }
td { overflow-wrap: anywhere; }
th { font-weight: 600; }
th[scope=row] { width: 12rem; }
.figures td, .figures th { font-size: .85rem; padding: .3rem .4rem; }
.figures .here td { background: $background; font-weight: 700; }
.wide { overflow-x: auto; }
figure { margin: 1rem 0; }
svg { width: 100%; font: 12px system-ui, sans-serif; }
figcaption, .quiet { color: #555; font-size: .85rem; }
@media print { body { margin: 0; } }
</style>
</head>
<body>
<h1>Which epsilon? An advice</h1>
<p>$file</p>
<div class="promise">
<p class="headline">$headline</p>
$reasons
</div>
$sections
<p class="quiet">Made by dpbart $version, with dpbart advise.</p>
</body>
</html>
""")
