"""Load `dpbart serve`, on loopback only: 50 callers with one text each, and a thousand requests with kills in between.

1. The rate of 50 callers, each with one text at a time, is compared with that of one file of the same texts. The file
   is rewritten in one process, as `dpbart rewrite` does it, without the time to load the model.
2. A thousand requests with a ledger and an Idempotency-Key each, while the server is killed with SIGKILL and started
   again. In the end every person is charged for exactly one text, and whoever was answered twice got the same answer.

    python benchmarks/serving.py [--epsilon 10] [--texts 600] [--requests 1000] [--kills 5]
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

from dpbart.ledger.ledger import Ledger
from dpbart.options.rewriting import Request
from dpbart.options.settings import Settings
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.engines.engine import Inline
from dpbart.rewrite.job import plan
from dpbart.rewrite.rewriter import Rewriter

CALLERS = 50
DPBART = [sys.executable, "-m", "dpbart"]
TEXT = "The room was clean and quiet, but the breakfast was cold on day {}."


class Server:
    """A server in a process of its own, which can be killed and started again under the same state."""

    def __init__(self, folder: Path, *options: str) -> None:
        quiet = ["--log-level", "error"]  # nobody reads the pipe
        self._command = [*DPBART, "serve", "--port", "0", "--state", str(folder / "state"), *quiet, *options]
        self.port = 0
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            found = re.search(r"listens on http://.*:(\d+)/", line)
            if found is not None:
                self.port = int(found[1])
                return
        raise SystemExit("the server did not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def ask(connection: http.client.HTTPConnection, number: int, **more: object) -> str:
    body = json.dumps({"texts": [TEXT.format(number)], **more})
    connection.request("POST", "/v1/rewrite", body, {"Idempotency-Key": f"benchmark-request-{number:08}"})
    answer = connection.getresponse()
    said = answer.read().decode()
    if answer.status != 200:
        raise SystemExit(f"request {number} was answered with {answer.status}")
    return said


def rate_of_callers(server: Server, epsilon: float, texts: int, first: int) -> float:
    """Texts per second of all callers together. Each keeps its connection and asks as soon as it is answered."""
    numbers, lock = iter(range(first, first + texts)), threading.Lock()

    def caller(_: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            ask(connection, number, epsilon=epsilon)

    began = time.monotonic()
    with ThreadPoolExecutor(CALLERS) as callers:
        list(callers.map(caller, range(CALLERS)))
    return texts / (time.monotonic() - began)


def rewrite_one_file(folder: Path, epsilon: float, texts: int) -> float:
    """Texts per second of one file, in this process, with the model loaded and warm: that takes no part of the time."""
    source, chosen = folder / "in.csv", ChosenModel(Settings(epsilon=epsilon))
    source.write_text("text\n" + "".join(f'"{TEXT.format(number)}"\n' for number in range(texts)))
    rewriter = Rewriter.of(chosen)
    rewriter.rewrite([TEXT.format(number) for number in range(CALLERS)])
    job = plan(Request(source, folder / "out.csv", overwrite=True), chosen.described)
    began = time.monotonic()
    job.run(Inline(lambda: rewriter))
    return texts / (time.monotonic() - began)


def rate_of_file(folder: Path, epsilon: float, texts: int) -> float:
    """The same in a process of its own, so that the server does not share it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        return alone.submit(rewrite_one_file, folder, epsilon, texts).result()


def compare_rates(folder: Path, epsilon: float, texts: int, rounds: int = 3) -> None:
    """In turns, so that another load of the machine meets both."""
    server, shares = Server(folder), []
    try:
        rate_of_callers(server, epsilon, CALLERS, 0)  # loads the model
        for number in range(rounds):
            file = rate_of_file(folder, epsilon, texts)
            callers = rate_of_callers(server, epsilon, texts, (number + 1) * 1_000_000)
            shares.append(callers / file)
            print(f"one file {file:.1f} texts/s, {CALLERS} callers {callers:.1f} texts/s: {callers / file:.2f}")
    finally:
        server.kill()
    print(f"median share {sorted(shares)[rounds // 2]:.2f} (at least 0.80 is wanted)")


def ask_until_answered(server: Server, number: int) -> str:
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
            return ask(connection, number, epsilon=10, people=[f"p{number}"])
        except (OSError, http.client.HTTPException):
            time.sleep(0.2)  # killed, and not back yet


def kill_between(folder: Path, requests: int, kills: int) -> None:
    ledger = folder / "ledger.db"
    server, answered = Server(folder, "--ledger", str(ledger)), threading.Semaphore(0)

    def one(number: int) -> str:
        said = ask_until_answered(server, number)
        answered.release()
        return said

    def killer() -> None:
        for _ in range(kills):
            for _ in range(requests // (kills + 1)):
                answered.acquire()
            time.sleep(random.uniform(0, 0.5))
            server.kill()
            server.start()

    thread = threading.Thread(target=killer)
    thread.start()
    with ThreadPoolExecutor(CALLERS) as callers:
        first = list(callers.map(one, range(requests)))
        thread.join()
        again = list(callers.map(one, range(requests)))
    server.kill()
    report(ledger, requests, first == again, kills)


def report(file: Path, requests: int, same: bool, kills: int) -> None:
    ledger = Ledger(file)
    charged = [sum(entry.texts for entry in ledger.entries(f"p{number}")) for number in range(requests)]
    ledger.close()
    print(f"{requests:,} requests, {kills} kills: {charged.count(1):,} people charged once, ", end="")
    print(f"{sum(each > 1 for each in charged)} more than once, {charged.count(0)} answered and not charged; ", end="")
    print(f"asked again, everybody got {'the same answer' if same else 'ANOTHER ANSWER'}")
    if charged != [1] * requests or not same:
        raise SystemExit("FAILED")


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--epsilon", type=float, default=10.0)
    asked.add_argument("--texts", type=int, default=600)
    asked.add_argument("--requests", type=int, default=1000)
    asked.add_argument("--kills", type=int, default=5)
    given = asked.parse_args()
    parts: list[Callable[[Path], None]] = [
        lambda folder: compare_rates(folder, given.epsilon, given.texts),
        lambda folder: kill_between(folder, given.requests, given.kills),
    ]
    for part in parts:
        with tempfile.TemporaryDirectory() as name:
            part(Path(name))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
