"""What the server does, apart from HTTP."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import Counter, OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpbart.card.card import read_private_key
from dpbart.collect.describe import ChosenBook
from dpbart.errors import BadParameter, BadTable, BudgetExceeded, NotPrepared
from dpbart.files import OWN, reason
from dpbart.ledger.ledger import Ledger
from dpbart.models.bundle import Bundle, bundled_names
from dpbart.options.collecting import CollectionBudget
from dpbart.options.settings import Settings
from dpbart.privacy.composition import Release
from dpbart.privacy.guarantee import exactly
from dpbart.rewrite.account import Account
from dpbart.rewrite.chosen import ChosenModel, refuse_idle_delta
from dpbart.rewrite.figures import guarantee_json
from dpbart.rewrite.people import People
from dpbart.rewrite.rewriter import Rewriter
from dpbart.web.bodies import SentTexts
from dpbart.web.figures import EXAMPLES, Spenders
from dpbart.web.guard import Limits, Problem
from dpbart.web.job import COLLECTION, TEXTS, Place
from dpbart.web.jobs import Jobs
from dpbart.web.queue import Batcher, Load
from dpbart.web.releases import AnswerStore, Charge, Key, Recorder, Rewritten, check_same, forget_unrecorded
from dpbart.web.telemetry import Tally
from dpbart.web.work import EachText, Whole, Work

_KNOWN_SETTINGS = 256  # whose models are hashed and channels made
_KNOWN_EXAMPLES = 256
_LOCK, _ANSWERS = "lock", "answers.db"  # files in the folder of a server


@dataclass
class _InFlight:
    """A request with an Idempotency-Key that is being answered."""

    request: str  # HMAC of its body
    answer: asyncio.Future[str]
    work: list[Future[str]]  # in the queue; empty before it is there
    clients: int = 0  # who wait for it
    end: asyncio.TimerHandle | None = None  # when it is dropped, if nobody waits for it


class Service:
    """The models, the queue, the ledger, the stored answers and the jobs of one server."""

    def __init__(self, place: Place, limits: Limits, *, load: Load = Rewriter.of) -> None:
        self.limits, self.ledger = limits, place.ledger
        self._sign_key = None if place.sign_key is None else read_private_key(place.sign_key)
        self._lock = _own_folder(place.state)
        self.bundles = {name: Bundle.find(name) for name in (*bundled_names(), *place.models)}
        self.answers = AnswerStore(place.state / _ANSWERS, seconds=limits.answer_seconds)
        if self.ledger is not None:
            Ledger(self.ledger, create=not self.ledger.is_file()).close()
        self.people = Spenders(self.ledger)
        forget_unrecorded(self.ledger, self.answers)
        self.tally, recorder = Tally(), Recorder(self.ledger, self.answers)
        self.batcher = Batcher(recorder, load=load, most_waiting=limits.waiting, tell=self.tally.batch)
        self._chosen = lru_cache(_KNOWN_SETTINGS)(ChosenModel)
        self._examples: OrderedDict[Settings, dict[str, Any]] = OrderedDict()
        self._in_flight: dict[str, _InFlight] = {}
        kinds: dict[str, Work] = {
            TEXTS: EachText(self.batcher, place, limits, self.offered),
            COLLECTION: Whole(place, limits, self.offered_book),
        }
        self.jobs = Jobs(kinds, place=place, limits=limits, sweep=self.answers.sweep)

    def drain(self) -> None:
        """Begin to stop: no further batch of a job, so that the requests that are still answered have all the time."""
        self.jobs.stop()

    def close(self) -> None:
        """End the threads, so that the process can end. Unfinished jobs are continued by the next server."""
        self.jobs.close()
        self.batcher.close()

    def offered(self, settings: Settings) -> ChosenModel:
        """The model of these settings, with what is already known about it. Raises NotPrepared if it is not ours."""
        self._check_model(settings.model)
        return self._chosen(settings)

    def offered_book(self, budget: CollectionBudget) -> ChosenBook:
        """The same for a collection. Raises BadParameter if the model has no book, or no such area or topic."""
        self._check_model(budget.model)
        return ChosenBook.of(budget)

    def _check_model(self, name: str) -> None:
        if name not in self.bundles:
            raise NotPrepared(f"no model named '{name}'. Models of this server: {', '.join(self.bundles)}.")

    async def rewrite(self, settings: Settings, asked: SentTexts, key: Key | None) -> tuple[str, bool]:
        """The answer to a request, and whether it was stored before. If this raises, nothing is charged.

        If this is cancelled, nobody waits for the answer any more. The work is then dropped: at once or, with a key,
        if no client comes back in time. What is being recorded by then is finished.
        """
        if key is None:
            return await self._rewrite(settings, asked, None), False
        stored, flight = self.answers.find(key), self._in_flight.get(key.key)
        if flight is not None:
            check_same(key, flight.request)
            return await self._wait(key, flight), True
        if stored is not None:
            return stored, True
        work: list[Future[str]] = []
        flight = _InFlight(key.request, asyncio.ensure_future(self._rewrite(settings, asked, key, work)), work)
        self._in_flight[key.key] = flight
        flight.answer.add_done_callback(lambda _: self._landed(key, flight))
        return await self._wait(key, flight), False

    async def _wait(self, key: Key, flight: _InFlight) -> str:
        if flight.end is not None:
            flight.end.cancel()
        flight.clients += 1
        try:
            return await asyncio.shield(flight.answer)
        finally:
            flight.clients -= 1
            if not flight.clients and not flight.answer.done():
                loop = asyncio.get_running_loop()
                flight.end = loop.call_later(self.limits.return_seconds, self._drop, key, flight)

    def _drop(self, key: Key, flight: _InFlight) -> None:
        """Forget a request to which no client came back. If it is being recorded, it is too late for that."""
        if all(work.cancel() for work in flight.work):
            flight.answer.cancel()
            self._landed(key, flight)

    def _landed(self, key: Key, flight: _InFlight) -> None:
        if self._in_flight.get(key.key) is flight:
            del self._in_flight[key.key]
        if flight.answer.done() and not flight.answer.cancelled():
            flight.answer.exception()  # heard, even if every client has gone

    async def _rewrite(
        self, settings: Settings, asked: SentTexts, key: Key | None, works: list[Future[str]] | None = None
    ) -> str:
        chosen, delta = self.offered(settings), await self.people.delta() if asked.card else None
        try:
            charge = await asyncio.to_thread(self._charge, asked, chosen, key, delta)
            work = self.batcher.submit(chosen, asked.texts, charge)
            if works is not None:
                works.append(work)
            return await asyncio.wrap_future(work)
        except BudgetExceeded as error:
            people = dict.fromkeys(asked.ids or ())
            left = await self.people.left(people, asked.exact_budget)
            raise Problem.of(error, left=left) from None

    def _charge(self, asked: SentTexts, chosen: ChosenModel, key: Key | None, delta: Decimal | None) -> Charge:
        """What a request spends. `delta` is that of the ledger, at which a card counts people; None without either."""
        if asked.people is None and (self.ledger is not None or asked.person_budget is not None):
            raise BadParameter('a ledger or a person budget needs ids. Pass "people": [...], with one id per text.')
        described, people = chosen.described, Counter(asked.ids or ())
        used = self.ledger is None and asked.people is not None
        refuse_idle_delta(described.delta, described.facts, used=used)
        # Refuses a delta or a person budget that does not suit this request alone; the ledger knows earlier ones.
        account = Account.open(
            Release((described.facts.event,)),
            None if asked.people is None else People("people"),
            people,
            total=len(asked.texts),
            delta=exactly(described.delta) if delta is None else delta,
            budget=asked.exact_budget,
            ledger=None,
        )
        answer = Rewritten(chosen, account, asked.card, self._sign_key)
        answer.check()
        return Charge(described, people, asked.exact_budget, key, answer.body)

    async def examples(self, settings: Settings) -> dict[str, Any]:
        """Made-up texts, rewritten at this budget. They are public, so nobody is charged, and drawn once."""
        chosen = self.offered(settings)
        if settings not in self._examples:
            refuse_idle_delta(settings.delta, chosen.channel.facts, used=False)
            new = await asyncio.wrap_future(self.batcher.submit_uncharged(chosen, EXAMPLES))
            pairs = zip(EXAMPLES, new.texts, strict=True)
            self._examples[settings] = {
                "model": settings.model,
                "guarantee": guarantee_json(new.guarantee),
                "examples": [{"original": old, "rewritten": written} for old, written in pairs],
            }
        while len(self._examples) > _KNOWN_EXAMPLES:
            self._examples.popitem(last=False)
        return self._examples[settings]


def _own_folder(state: Path) -> int:
    """Create the folder for its owner alone, and lock it for this server. Returns the open lock."""
    lock = state / _LOCK
    try:
        held = {path.name for path in state.iterdir()} if state.is_dir() else set()
        if held and not held & {_LOCK, _ANSWERS}:  # somebody else's: its rights would change
            raise BadTable(f"the folder {str(state)!r} holds other files. Name a new or an empty one with --state.")
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        state.chmod(0o700)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, OWN)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadTable(f"another server uses the folder {str(state)!r}. Stop it, or name another --state.") from None
    except OSError as error:
        raise BadTable(f"the folder {str(state)!r} cannot be used: {reason(error)}. Name another --state.") from None
    return handle
