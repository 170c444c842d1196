"""The same contract for all three engines: this process, several processes, and a real local Ray."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpbart import Rewriter
from dpbart.cli import cli
from dpbart.errors import BadParameter, EngineFailed, NotPrepared
from dpbart.models.bundle import Bundle
from dpbart.options.rewriting import Request
from dpbart.options.settings import Settings
from dpbart.privacy.mechanisms import Noised
from dpbart.privacy.sampling import SystemEntropy
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.engines import choose_engine
from dpbart.rewrite.engines.engine import Engine, Inline, Make, Processes
from dpbart.rewrite.engines.on_ray import OnRay
from dpbart.rewrite.job import plan
from dpbart.tables.batch import Batch, DictRows
from dpbart.testing import FakeModel, described, fake_rewriter

OBJECTS = ("a red bicycle", "two letters", "the garden gate", "an apple", "the blue boat", "a song", "nine keys")


def deadly(texts: Sequence[str]) -> list[str]:
    """Adds the process id to each text; kills its process once, or every time, and leaves its id behind."""
    time.sleep(0.02)
    flag = Path(os.environ.get("DPBART_TEST_FLAG", "/nowhere/at/all"))
    if flag.parent.is_dir() and (not flag.exists() or flag.name == "always") and "text 12" in texts:
        flag.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return [f"{text}@{os.getpid()}" for text in texts]


def make_deadly(flag: Path) -> Rewriter:
    os.environ["DPBART_TEST_FLAG"] = str(flag)
    return fake_rewriter(deadly, epsilon=500, batch_size=4)


def loud(texts: Sequence[str]) -> list[str]:
    """Returns the texts in capitals, or random bits of this process for texts that ask for them."""
    return [str(SystemEntropy().words(1)[0]) if text == "bits" else text.upper() for text in texts]


def make_loud() -> Rewriter:
    return fake_rewriter(loud, epsilon=500, batch_size=4)


def make_nothing() -> Rewriter:
    raise NotPrepared("there is no such model")


def batches(count: int) -> Iterator[Batch]:
    for number in range(count):
        rows = [{"text": f"text {4 * number + place}"} for place in range(4)]
        yield DictRows(4 * number + 1, ("text",), rows)


@pytest.fixture(scope="module")
def one_ray() -> Iterator[list[str]]:
    """Keep the Ray that the first engine starts for the others. Returns what the engines asked of Ray."""
    import ray

    asked, start, stop = list[str](), ray.init, ray.shutdown

    def init(**options: object) -> None:
        asked.append("init")
        if not ray.is_initialized():
            start(**options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray, "init", init)
        patch.setattr(ray, "shutdown", lambda: asked.append("shutdown"))
        yield asked
    stop()


def engine_of(kind: str, make: Make, workers: int = 2) -> Engine:
    if kind == "ray":
        import ray

        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test module
        return OnRay(make, workers)
    return Processes(make, workers) if kind == "processes" else Inline(make)


def test_workers_of_a_code_model_load_what_it_needs_and_no_more() -> None:
    for model, module in (("mini-code", "dpbart.models.code.model"), ("mini", "dpbart.models.bart")):
        engine = choose_engine("local", ChosenModel(Settings(model, 10.0)), workers=2)
        assert isinstance(engine, Processes)
        assert engine.preload == (module,)
        assert (engine.order is not None) == (model == "mini-code")  # torch must not be forked


@pytest.mark.parametrize("kind", ["processes", "ray"])
def test_a_dead_worker_is_replaced_and_its_batch_returned_once(tmp_path: Path, kind: str, one_ray: list[str]) -> None:
    read: list[int] = []

    def watched() -> Iterator[Batch]:
        for batch in batches(20):
            read.append(batch.first)
            yield batch

    engine = engine_of(kind, partial(make_deadly, tmp_path / "once"))
    texts: list[str] = []
    for batch, rewriting in engine.map(watched()):
        texts += rewriting.texts
        assert len(read) - len(texts) // 4 <= 3 * 2  # only a few batches are in flight
        assert batch.first == len(texts) - 3
    assert [text.partition("@")[0] for text in texts] == [f"text {number}" for number in range(80)]
    dead = (tmp_path / "once").read_text()
    assert texts[12].partition("@")[2] != dead


def test_the_run_stops_when_workers_keep_dying(tmp_path: Path) -> None:
    engine = Processes(partial(make_deadly, tmp_path / "always"), 1)
    with pytest.raises(EngineFailed, match="workers died 4 times without finishing a batch"):
        list(engine.map(batches(5)))


@pytest.mark.parametrize("kind", ["inline", "processes"])
def test_all_engines_return_the_same_rows_in_the_same_order(tmp_path: Path, kind: str) -> None:
    source, out, make = tmp_path / "in.csv", tmp_path / "out.csv", make_loud
    rows = [f"{number},{OBJECTS[number % 7]} {number}" for number in range(61)]
    source.write_text("\n".join(["id,text", *rows]) + "\n")
    rewriter = make()
    card = plan(Request(source, out, keep_all=True), described(rewriter)).run(engine_of(kind, make))
    assert out.read_text().splitlines()[1:] == [row.upper() for row in rows]
    assert card.run.engine == {"inline": "local, in one process", "processes": "local, in 2 processes"}[kind]


def test_two_workers_draw_different_noise() -> None:
    same = (DictRows(4 * number + 1, ("text",), [{"text": "bits"}] * 4) for number in range(10))
    texts = [text for _, done in Processes(make_loud, 2).map(same) for text in done.texts]
    assert len(set(texts)) == len(texts) == 40


def test_the_command_line_chooses_the_engine(tiny: Bundle, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a child\n" * 5)
    files = (str(tmp_path / "in.txt"), str(tmp_path / "out.txt"))
    done = CliRunner().invoke(cli, ["rewrite", *files, "-e", "50", "--model", str(tiny.folder), "--workers", "2"])
    assert done.exit_code == 0, done.stderr
    assert "local, in 2 processes" in (tmp_path / "out.txt.card.txt").read_text()


def test_an_address_without_ray_fails_before_ray_tries_to_connect(
    tiny: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would keep trying for minutes."""
    import ray

    def asked(**_: object) -> None:
        raise AssertionError("Ray was asked")

    monkeypatch.setattr(ray, "init", asked)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    for wrong in (address, "nonsense", "127.0.0.1:notaport"):
        make: Callable[[], Rewriter] = partial(Rewriter.load, str(tiny.folder), epsilon=20)
        with pytest.raises(EngineFailed, match="no Ray cluster answers at"):
            list(OnRay(make, 1, wrong).map(batches(1)))


@pytest.mark.parametrize("kind", ["inline", "processes"])
def test_a_worker_that_cannot_load_its_model_says_why(kind: str) -> None:
    with pytest.raises(NotPrepared, match="there is no such model"):
        list(engine_of(kind, make_nothing).map(batches(2)))


def test_bad_engine_arguments_are_refused(tiny: Bundle) -> None:
    asked = Settings(str(tiny.folder), epsilon=20)
    settings, replay = ChosenModel(asked), ChosenModel(asked.changed(replay_seed=1))
    for engine in ("local", "ray"):
        with pytest.raises(BadParameter, match="a replay must have one worker, got 2"):
            choose_engine(engine, replay, workers=2)
    with pytest.raises(BadParameter, match="at least 1, got 0"):
        choose_engine("local", settings, workers=0)
    with pytest.raises(BadParameter, match="engine must be one of local, ray, got 'spark'"):
        choose_engine("spark", settings)
    assert isinstance(choose_engine("local", replay, rows=10**6), Inline)
    on_ray = choose_engine("ray", replay, rows=10**6)
    assert isinstance(on_ray, OnRay)
    assert on_ray.workers == 1
    done = CliRunner().invoke(cli, ["rewrite", "in.csv", "out.csv", "-e", "5", "--address", "auto"])
    assert "Pass --engine ray with it" in done.stderr


DRIVER = """
import sys
from pathlib import Path
from dpbart import Request, Settings, rewrite_file

folder, model, engine = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
rewrite_file(Request(folder / "in.txt", folder / "out.txt"), Settings(model, epsilon=50), engine=engine, workers=2)
maps = Path("/proc/self/maps")
print(*(name for name in ("torch", "dpbart.models.bart", "dpbart.models.code.model") if name in sys.modules))
print(maps.exists() and "model.safetensors" in maps.read_text())
"""


@pytest.mark.parametrize(("kind", "engine"), [("bart", "local"), ("code", "local"), ("code", "ray")])
def test_with_workers_the_driver_loads_no_model(tiny: Bundle, tmp_path: Path, kind: str, engine: str) -> None:
    (tmp_path / "in.txt").write_text("a child\n" * 5)
    command = [
        sys.executable,
        "-c",
        DRIVER,
        str(tmp_path),
        {"bart": str(tiny.folder), "code": "mini-code"}[kind],
        engine,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "False"]
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 5


def test_without_ray_the_error_names_the_extra_to_install() -> None:
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "from dpbart.errors import MissingExtra; from dpbart.rewrite.engines.on_ray import OnRay\n"
        "try: list(OnRay(None).map([]))\n"
        "except MissingExtra as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ("running on Ray needs an extra package. Install it with: pip install 'dpbart[ray]'")


class NoiseModel(FakeModel):
    """Writes the noised latent of each text, so that two replays can be compared; its process can die once."""

    def decode(self, private: Noised) -> list[str]:
        deadly(self._texts)
        return [str(value) for value in private.values.ravel().tolist()]


def make_replayed(flag: Path) -> Rewriter:
    os.environ["DPBART_TEST_FLAG"] = str(flag)
    return replace(fake_rewriter(epsilon=500, batch_size=4, replay_seed=7), model=NoiseModel())


def test_a_replay_on_ray_gives_the_same_texts_as_in_this_process(tmp_path: Path, one_ray: list[str]) -> None:
    """Even if its worker dies: the new one does not begin with the noise of the first row again."""
    one_ray.clear()
    here, there = (
        [text for _, done in engine_of(kind, partial(make_replayed, flag), 1).map(batches(6)) for text in done.texts]
        for kind, flag in (("inline", Path("/nowhere/at/all")), ("ray", tmp_path / "once"))
    )
    assert (tmp_path / "once").exists()
    assert there == here
    assert len(set(here)) == 24
    assert one_ray == ["init", "shutdown"]  # each engine stops the Ray that it started


def test_a_replay_that_resumes_gives_the_same_texts_as_one_that_was_not_interrupted() -> None:
    make = partial(make_replayed, Path("/nowhere/at/all"))
    whole = [done.texts for _, done in Inline(make).map(batches(6))]
    resumed = [done.texts for _, done in Inline(make).map(batch for batch in batches(6) if batch.first > 8)]
    assert resumed == whole[2:]
