"""What the API answers: a record of each answer. Its description follows from them (schema.py)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dpbart.privacy.scale import LEVELS


class Answer(BaseModel):
    """What the server answers. It has these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class ProblemAnswer(BaseModel):
    """A problem (RFC 9457), in the words of the command line."""

    type: str = Field(examples=["urn:dpbart:budget-exceeded"])
    title: str
    status: int
    detail: str
    left: list[SpendingAnswer] = Field([], description="With a refused budget: what each person has left.")


class LimitsAnswer(Answer):
    body: int = Field(description="Bytes of a request, other than an upload.")
    upload: int = Field(description="Bytes of an upload.")
    unpacked: int = Field(description="Bytes that an uploaded file may unpack to.")
    row: int = Field(description="Characters of one of its rows.")
    texts: int = Field(description="Texts in one request.")
    searched: int = Field(description="Texts times beams in one request.")
    characters: int = Field(description="Characters of one text.")
    jobs: int = Field(description="File jobs that wait or run.")
    job_seconds: int = Field(description="How long the files of a job are kept after it ended.")
    downloaded_seconds: int = Field(description="How long they are kept after the result was downloaded.")
    answer_seconds: int = Field(description="How long the answer to an Idempotency-Key is kept.")


class HealthAnswer(Answer):
    status: Literal["ok"]
    version: str
    token: bool = Field(description="Whether requests need a token.")
    ledger: bool = Field(description="Whether the server counts what people spend.")
    limits: LimitsAnswer


class AreaAnswer(Answer):
    name: str = Field(examples=["health"], description="For `areas`.")
    sentences: int
    topics: list[str] = Field(description="For `topics`.")
    examples: list[str] = Field(description="Some of its sentences.")


class ModelAnswer(Answer):
    name: str
    variant: str
    summary: str
    length: int = Field(description="Tokens that it reads and writes by default.")
    mechanisms: list[str] = Field(description="The first one is its own.")
    budgets: list[float] = Field(
        description="The epsilons that a code model was made for, the largest last; it takes none above. Empty if it "
        "takes any."
    )
    sentences: int = Field(description="Of its book of public sentences; 0 if it has none.")
    areas: list[AreaAnswer] = Field(description="Of its book; empty if it has none.")


class ModelsAnswer(Answer):
    default: str
    models: list[ModelAnswer]


class GuaranteeAnswer(Answer):
    epsilon: float | None = Field(description="null if the output is NOT PRIVATE.")
    delta: float
    private: bool
    level: str = Field(json_schema_extra={"enum": [level.name for level in LEVELS]})
    words: str = Field(examples=["(epsilon 10, delta 0)"])


class WorstAnswer(Answer):
    """The weakest promise that anybody gets from these texts alone."""

    guarantee: GuaranteeAnswer
    texts: int = Field(description="How many texts it is for.")
    words: str = Field(description="What it is for.", examples=["all 11 texts of one person"])


class WordsAnswer(Answer):
    name: str
    words: str


class PersonNoiseAnswer(Answer):
    texts: int
    guarantee: GuaranteeAnswer
    composition: str = Field(description="How the texts add up.")
    words: str


class ShuffledNoiseAnswer(Answer):
    people: int
    guarantee: GuaranteeAnswer = Field(description="To those who see only the shuffled output.")
    rule: Literal["blanket", "clones", "local"]
    known: int = Field(description="How many rows the second reader knows.")
    known_guarantee: GuaranteeAnswer = Field(description="To those who also know these rows.")
    words: list[WordsAnswer]


class NoiseAnswer(Answer):
    mechanism: str
    guarantee: GuaranteeAnswer = Field(description="Of one text.")
    figures: dict[str, float | int | str | None]
    bits: float | None = Field(description="null if there is no bound.")
    kept_of_100: float | None = Field(description="null for mechanisms that do not keep a text or lose it.")
    right_of_two: float
    right_of_a_million: float
    words: list[WordsAnswer]
    person: PersonNoiseAnswer | None = Field(
        None, description="With `texts`: at the delta of the ledger, or else its own."
    )
    shuffled: ShuffledNoiseAnswer | None = Field(None, description="With `people`.")


class CollectionNoiseAnswer(Answer):
    people: int
    labels: int
    guarantee: GuaranteeAnswer = Field(description="Of one person.")
    cells: int = Field(description="Parts of the book that are counted.")
    scale_votes: float = Field(description="Of the noise on each count, in votes.")
    topics_told_apart: int
    share_error: float = Field(description="Of a topic's share, at most, in 19 of 20 releases.")
    least_people: int = Field(description="From how many people on it is worth it.")
    enough: bool
    words: list[WordsAnswer]


class ExampleAnswer(Answer):
    original: str
    rewritten: str


class ExamplesAnswer(Answer):
    model: str
    guarantee: GuaranteeAnswer
    examples: list[ExampleAnswer]


class OutputAnswer(Answer):
    name: str
    content: str = Field(description="A table of the new texts. The card holds the SHA-256 of its UTF-8.")


class CardAnswer(Answer):
    json_page: str = Field(alias="json", description="Save it as it is, as NAME.card.json.")
    html: str


class RewriteAnswer(Answer):
    texts: list[str]
    guarantee: GuaranteeAnswer
    recipe: str
    model: str
    worst: WorstAnswer
    output: OutputAnswer | None = Field(None, description="With `card`.")
    card: CardAnswer | None = Field(None, description="With `card`.")


class SpendingAnswer(Answer):
    person: str
    texts: int
    spent: str = Field(description="A decimal, or 'infinite' if a release has no guarantee.")
    delta: str = Field(description="At which spending is measured, a decimal.")
    limit: str | None = Field(description="A decimal; null without a limit.")
    left: str | None = Field(description="A decimal; null without a limit.")


class RunAnswer(Answer):
    run: str
    begun: str = Field(description="Date and time, UTC.")
    last: str = Field(description="When this person's last text of the run was recorded, UTC.")
    texts: int
    mechanism: str
    epsilon: str = Field(description="Of each text: a decimal, or 'infinite'.")
    delta: str = Field(description="Of each text, a decimal.")
    model: str


class PersonAnswer(SpendingAnswer):
    composition: str | None = Field(description="How the releases add up; null if there are none.")
    runs: list[RunAnswer]


class LedgerAnswer(Answer):
    people: int
    texts: int
    limit: str | None = Field(description="For everybody without a limit of their own: a decimal; null without one.")
    delta: str = Field(description="At which spending is measured, a decimal.")
    private: bool = Field(description="Whether every release in the ledger has a guarantee.")
    start: int
    spending: list[SpendingAnswer]


class ColumnsAnswer(Answer):
    columns: list[str] = Field(description="An object is replaced by its keys, such as note.text.")
    reading: str | None = Field(description="How the file is read, if users may expect something else.")


class AdviceAnswer(Answer):
    headline: str = Field(description="What is recommended, in one sentence.")
    reasons: list[str]
    changes: list[str] = Field(description="What would change the recommendation.")
    page: str = Field(description="The whole advice as an HTML page to file.")
    figures: dict[str, Any] = Field(description="All figures, as 'dpbart advise --json' prints them.")


class JobAnswer(Answer):
    id: str
    name: str
    kind: Literal["texts", "collection"] = Field(description="Each text is rewritten, or the collection as a whole.")
    status: Literal["waiting", "running", "asking", "cancelled", "failed", "done"]
    rows: int | None = Field(description="To rewrite, or to read for a collection; null until they are counted.")
    done: int | None
    created: float = Field(description="Seconds since 1970, like all times.")
    ended: float | None
    expires: float | None = Field(description="When its files are deleted; null while it waits or runs.")
    notices: list[str]
    problem: ProblemAnswer | None = Field(description="Why it failed.")
    worst: WorstAnswer | None = Field(description="null until the people are counted.")
    guarantee: GuaranteeAnswer | None = Field(description="Of one text, or of one person in a collection, when done.")
    shuffled: GuaranteeAnswer | None = Field(description="To those who see only the shuffled output.")
    result: str | None = Field(description="The address of the output, when the job is done.")
    card: str | None


class JobsAnswer(Answer):
    jobs: list[JobAnswer] = Field(description="The newest first.")


class ShareAnswer(Answer):
    name: str
    area: str
    estimate: float = Field(description="A share, or a difference of shares; it may be below 0 by chance.")
    low: float
    high: float
    told_from_noise: bool = Field(description="Whether the interval excludes 0.")


class GroupAnswer(Answer):
    name: str = Field(description="Empty for all.")
    counted: float = Field(description="Texts, or people.")
    shares: list[ShareAnswer]


class DifferenceAnswer(Answer):
    first: str
    second: str
    shares: list[ShareAnswer]


class TopicsAnswer(Answer):
    release: Literal["rewritten", "shuffled", "synthesised"]
    epsilon: float
    counted: Literal["texts", "people"]
    parts: Literal["topics", "areas", "cells"]
    estimated: str = Field(description="What a share is.")
    level: float = Field(description="How often all intervals hold together.")
    by: str | None
    groups: list[GroupAnswer]
    differences: list[DifferenceAnswer]
