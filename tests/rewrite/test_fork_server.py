"""Workers share a model that was loaded before they were forked, and nothing else: no randomness, no other model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpbart import Rewriter
from dpbart.options.settings import Settings
from dpbart.privacy.sampling import Entropy, ReplaySeed, SystemEntropy
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.engines.fork_server import ORDER, order_of

CHOSEN = ChosenModel(Settings(epsilon=10.0, areas=("health", "service")))


def in_a_new_process(code: str, *arguments: str, **variables: str) -> str:
    """What a program prints. The server is started once in a process, so each test needs a process of its own."""
    command, around = [sys.executable, "-c", code, *arguments], {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=around).stdout.strip()


def test_an_order_is_loaded_once_and_leaves_the_environment() -> None:
    code = (
        "import os, sys; from dpbart.rewrite.engines import fork_server as server; order = sys.argv[1]\n"
        "print(server.loaded(order), server.loaded(order) is server.loaded(order), server.loaded(order + ' '),\n"
        "      server.loaded(None), server.ORDER in os.environ, sep='; ')"
    )
    order = order_of(CHOSEN)
    assert in_a_new_process(code, order, **{ORDER: order}) == f"{Rewriter.of(CHOSEN)!r}; True; None; None; False"
    assert in_a_new_process(code, order) == "None; True; None; None; False"


def test_a_model_that_cannot_be_loaded_is_left_to_the_workers() -> None:
    code = "import sys; from dpbart.rewrite.engines.fork_server import loaded; print(loaded(sys.argv[1]))"
    order = json.dumps([{**CHOSEN.settings.model_dump(), "areas": ["nowhere"]}, []])
    assert in_a_new_process(code, order, **{ORDER: order}) == "None"


def test_other_settings_or_files_are_another_order(tmp_path: Path) -> None:
    orders = {order_of(ChosenModel(Settings(epsilon=epsilon))) for epsilon in (10.0, 11.0)}
    folder = tmp_path / "model"
    folder.mkdir()
    for file in CHOSEN.bundle.folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    orders.add(order_of(ChosenModel(Settings(str(folder), epsilon=10.0))))
    os.utime(folder / "model.safetensors", (1, 1))
    orders.add(order_of(ChosenModel(Settings(str(folder), epsilon=10.0))))
    assert len(orders) == 4


WORKERS = """
import os, sys
from pathlib import Path
from dpbart.options.settings import Settings
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.engines import choose_engine
from dpbart.rewrite.engines.engine import Processes
from dpbart.tables.batch import DictRows

def own(process):
    rows = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(row.split()[1]) for row in rows if row.startswith("Private_Dirty"))

if __name__ == "__main__":
    engine = choose_engine("local", ChosenModel(Settings(epsilon=10.0)), workers=2)
    if sys.argv[1] == "alone":
        engine = Processes(engine.make, 2, engine.preload)
    batches = (DictRows(4 * number + 1, ("text",), [{"text": "a child"}] * 4) for number in range(8))
    largest = 0
    for _ in engine.map(batches):
        seen = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        parents = {each: int(Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[1]) for each in seen}
        servers = [each for each, parent in parents.items() if parent == os.getpid()]
        largest = max(largest, *(own(each) for each, parent in parents.items() if parent in servers))
    print(largest)
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux says how much memory is shared")
def test_workers_share_the_memory_of_a_model(tmp_path: Path) -> None:
    """Without an order each loads its own, which shows that the measurement sees a model."""
    program = tmp_path / "workers.py"
    program.write_text(WORKERS)
    shared, alone = (
        int(subprocess.run([sys.executable, program, how], capture_output=True, text=True, check=True).stdout)
        for how in ("shared", "alone")
    )
    assert shared + 20_000 < alone  # kB


def words_after_a_fork(entropy: Entropy) -> set[bytes]:
    """What two children of this process draw from one object that was made before they were forked."""
    found = set()
    for _ in range(2):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, entropy.words(4).tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        found.add(os.read(read, 32))
        os.close(read)
        os.close(write)
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_no_randomness_is_kept_across_a_fork() -> None:
    """The control keeps its state: both children draw the same."""
    entropy = SystemEntropy()
    entropy.words(3)
    assert len(words_after_a_fork(entropy)) == 2
    assert len(words_after_a_fork(ReplaySeed(1))) == 1
    assert Rewriter.of(CHOSEN).entropy.__dict__ == {}
