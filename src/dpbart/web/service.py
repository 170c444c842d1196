"""What the server does, apart from HTTP."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import Counter, OrderedDict
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpbart.errors import BadParameter, BadTable, BudgetExceeded, NotPrepared
from dpbart.files import OWN, reason
from dpbart.models.bundle import Bundle, bundled_names
from dpbart.privacy.budget.composition import Release
from dpbart.privacy.budget.ledger import Ledger
from dpbart.privacy.card.signing import read_private_key
from dpbart.privacy.decimals import exactly
from dpbart.rewrite.account import Account
from dpbart.rewrite.people import People
from dpbart.rewrite.rewriter import Rewriter
from dpbart.rewrite.settings import Settings
from dpbart.web.answers import Answers, Key, check_same
from dpbart.web.batching import Batcher, Load
from dpbart.web.bodies import RewriteBody
from dpbart.web.examples import EXAMPLES
from dpbart.web.figures import guarantee_json
from dpbart.web.jobs import Jobs
from dpbart.web.limits import Limits
from dpbart.web.place import Place
from dpbart.web.problems import Problem
from dpbart.web.releases import Charge, Releases, forget_unrecorded
from dpbart.web.rewritten import Rewritten
from dpbart.web.spending import Spenders

_KNOWN_SETTINGS = 256  # whose models are hashed and channels made
_KNOWN_EXAMPLES = 256
_LOCK, _ANSWERS = "lock", "answers.db"  # files in the folder of a server


class Service:
    """The models, the queue, the ledger, the stored answers and the jobs of one server."""

    def __init__(self, place: Place, limits: Limits, *, load: Load = Rewriter.of) -> None:
        self.limits, self.ledger = limits, place.ledger
        self._sign_key = None if place.sign_key is None else read_private_key(place.sign_key)
        self._lock = _own_folder(place.state)
        self.bundles = {name: Bundle.find(name) for name in (*bundled_names(), *place.models)}
        self.answers = Answers(place.state / _ANSWERS, seconds=limits.answer_seconds)
        if self.ledger is not None:
            Ledger(self.ledger, create=not self.ledger.is_file()).close()
        self.people = Spenders(self.ledger)
        forget_unrecorded(self.ledger, self.answers)
        self.batcher = Batcher(Releases(self.ledger, self.answers), load=load, most_waiting=limits.waiting)
        self._settings: OrderedDict[Settings, Settings] = OrderedDict()
        self._examples: OrderedDict[Settings, dict[str, Any]] = OrderedDict()
        self._in_flight: dict[str, tuple[str, asyncio.Future[str]]] = {}
        self.jobs = Jobs(
            place.state / "jobs",
            self.batcher,
            place=place,
            limits=limits,
            offered=self.offered,
            sweep=self.answers.sweep,
        )

    def close(self) -> None:
        """End the threads, so that the process can end. Unfinished jobs are continued by the next server."""
        self.jobs.close()
        self.batcher.close()

    def offered(self, settings: Settings) -> Settings:
        """The same settings, with what is already known about their model.

        Raises:
            NotPrepared: The server does not offer the model.
        """
        if settings.model not in self.bundles:
            raise NotPrepared(f"no model named '{settings.model}'. Models of this server: {', '.join(self.bundles)}.")
        known = self._settings.setdefault(settings, settings)
        while len(self._settings) > _KNOWN_SETTINGS:
            self._settings.popitem(last=False)
        return known

    async def rewrite(self, body: bytes, key: Key | None) -> tuple[str, bool]:
        """The answer to a request, and whether it was stored before.

        Raises:
            Problem, DpbartError: It is refused, and nothing is charged.
        """
        if key is None:
            return await self._rewrite(body, None), False
        stored = self.answers.find(key)
        if stored is not None and key.key not in self._in_flight:
            return stored, True
        if key.key in self._in_flight:
            request, answer = self._in_flight[key.key]
            check_same(key, request)
            return await asyncio.shield(answer), True
        task = asyncio.ensure_future(self._rewrite(body, key))
        self._in_flight[key.key] = (key.request, task)
        task.add_done_callback(lambda _: self._in_flight.pop(key.key))
        return await asyncio.shield(task), False

    async def _rewrite(self, body: bytes, key: Key | None) -> str:
        asked = RewriteBody.read(body, self.limits)
        settings, delta = self.offered(asked.settings), await self.people.delta() if asked.card else None
        try:
            charge = await asyncio.to_thread(self._charge, asked, settings, key, delta)
            return await asyncio.wrap_future(self.batcher.submit(settings, asked.texts, charge))
        except BudgetExceeded as error:
            people = dict.fromkeys(asked.people or ())
            left = await self.people.left(people, asked.exact_budget)
            raise Problem.of(error, left=left) from None

    def _charge(self, asked: RewriteBody, settings: Settings, key: Key | None, delta: Decimal | None) -> Charge:
        """What a request spends. `delta` is that of the ledger, at which a card counts people; None without either."""
        if asked.people is None and (self.ledger is not None or asked.person_budget is not None):
            raise BadParameter('a ledger or a person budget needs ids. Pass "people": [...], with one id per text.')
        described, people = settings.described, Counter(asked.people or ())
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
        answer = Rewritten(settings, account, asked.card, self._sign_key)
        answer.check()
        return Charge(described, people, asked.exact_budget, key, answer.body)

    async def examples(self, settings: Settings) -> dict[str, Any]:
        """Made-up texts, rewritten at this budget. They are public, so nobody is charged, and drawn once."""
        settings = self.offered(settings)
        if settings not in self._examples:
            _ = settings.channel
            new = await asyncio.wrap_future(self.batcher.submit_uncharged(settings, EXAMPLES))
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
