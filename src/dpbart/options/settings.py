"""The model and its privacy budget, and where it runs: plain values, known before any model is looked for."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from dpbart.errors import BadParameter
from dpbart.options.declare import Record, Strings, option
from dpbart.privacy.calibration import check_epsilon, check_slack
from dpbart.version import DEFAULT_MODEL

DEFAULT_DELTA = 1e-5
MOST_BEAMS = 100  # memory grows with beams times vocabulary


class BookBudget(Record):
    """A model by name, its privacy budget, and which part of its book may come out."""

    # A resumed run compares the facts of the channel and the card's line about the model instead of these.
    model: str = option(
        DEFAULT_MODEL, flags="-m --model", help="Model: a bundled name, a directory or a hub id.", resume=False
    )
    epsilon: float | None = option(
        None,
        flags="-e --epsilon",
        help="Privacy budget of one text; smaller is more private.",
        example=10,
        allow_inf_nan=True,  # the mechanism checks it: "none" has an infinite one
        resume=False,
    )
    areas: Strings = option(
        (),
        metavar="A,B",
        separated=True,
        help="Only sentences of these areas of the model's book can come out, so the same budget says more. Choose "
        "them by what everybody may know about the file. See 'dpbart models show NAME --areas'.",
        example=["health", "service"],
        resume=False,
    )
    topics: Strings = option(
        (),
        metavar="TOPIC",
        help="The same for a topic of the book. Repeatable; with --areas, sentences of either can come out.",
        example=["being happy"],
        resume=False,
    )


class Budget(BookBudget):
    """A model by name, and the privacy budget of one text.

    Attributes:
        model: a bundled name such as "mini-code", a directory, or a hub id such as "facebook/bart-base".
        epsilon: may be left out only with the mechanism "none".
        delta: choose it below 1 / (number of texts). For one text, a pure mechanism has none: leave it out, or pass 0.
        mechanism: "response", "gaussian", "laplace" or "none" (NOT PRIVATE); the model's default if left out.
    """

    delta: float = option(
        DEFAULT_DELTA,
        flags="-d --delta",
        help="Slack in the guarantee; must be below 1/rows. A pure mechanism uses it only for shuffled rows and for "
        "several texts together; 0 is right otherwise.",
        allow_inf_nan=True,  # checked below
        resume=False,
    )
    mechanism: str | None = option(
        None,
        metavar="NAME",
        help="response, gaussian, laplace, or none (NOT PRIVATE); by default the model's own.",
        resume=False,
    )
    book_only: bool = option(
        False, help="Only sentences of the model's book can come out, at every budget.", resume=False
    )

    @model_validator(mode="after")
    def _check_budget(self) -> Budget:
        if self.mechanism is not None:
            from dpbart.privacy.mechanisms import known  # imports numpy, and --help must not wait for it

            mechanism = known(self.mechanism)
            if self.epsilon is not None:  # without one, the channel asks for it
                mechanism.check_budget(self.epsilon, self.delta)
        elif self.epsilon is not None:
            check_epsilon(self.epsilon)
        check_slack(self.delta)
        return self


class Settings(Budget):
    """A model by name, and how it rewrites. Workers get these values and load the model themselves.

    Settings("mini-code", epsilon=50)
    """

    # The card's line about the model holds length and beams, and a resumed run compares it.
    length: int | None = option(
        None, help="Tokens to read and write per text; by default the model's own length.", resume=False
    )
    beams: int | None = option(
        None, help="Width of the decoder's search; by default the model's own.", ge=1, le=MOST_BEAMS, resume=False
    )
    device: str | None = option(
        None,
        metavar="cpu|cuda|cuda:N",
        help="Where a BART or ADePT runs; by default on a GPU if there is one. Other models run on the CPU.",
        http=False,
        resume=False,
    )
    batch_size: int = option(32, help="Texts per batch.", ge=1, http=False)
    replay_seed: int | None = option(
        None,
        help="NOT PRIVATE: take the noise from this seed, for tests and replays.",
        http=False,
        resume=False,  # the channel's recipe says that it is a replay, and of which seed
    )

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)


class Running(Record):
    """Where the texts are rewritten. It changes no text."""

    engine: str = option("local", metavar="local|ray", help="Run on this machine, or on Ray.", resume=False)
    workers: int | None = option(None, help="Processes or Ray actors. Chosen automatically by default.", resume=False)
    address: str | None = option(
        None,
        metavar="HOST:PORT",
        help="Head of a Ray cluster, or 'auto'; by default, start Ray on this machine.",
        resume=False,
    )


class NoiseQuestion(Budget):
    """What a budget means: for a model, or for a latent of a given shape."""

    epsilon: float | None = option(
        flags="-e --epsilon",
        help="Privacy budget of one text; smaller is more private.",
        example=10,
        allow_inf_nan=True,
        resume=False,
    )
    length: int | None = option(None, help="Instead of a model: positions in a latent.  [default: 20]", ge=1)
    columns: int | None = option(None, help="Instead of a model: columns kept per position.  [default: 768]", ge=1)
    clip: float | None = option(None, help="Instead of a model: bound on each entry of a latent.  [default: 0.1]")
    people: int | None = option(
        None, help="Also show the guarantee of a shuffled output with one row for each of these."
    )
    collection: bool = option(
        False, help="Instead: what to expect if these people are released as a whole, with 'dpbart synthesize'."
    )
    labels: int | None = option(None, help="With --collection: how many labels its rows have.", ge=2)

    @model_validator(mode="after")
    def _check_collection(self) -> NoiseQuestion:
        if not self.collection:
            if self.labels is not None:
                raise BadParameter("labels are those of a collection here. Pass --collection with --labels.")
            return self
        if self.people is None:
            raise BadParameter("what a collection says depends on its people. Pass --people with --collection.")
        others = (self.length, self.columns, self.clip, self.mechanism)
        if others != (None,) * 4 or self.book_only or self.delta not in (0, DEFAULT_DELTA):
            raise BadParameter(
                "a collection has counts of a book, with a pure epsilon. Leave out --length, --columns, --clip, "
                "--mechanism, --delta and --book-only."
            )
        return self
