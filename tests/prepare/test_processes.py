"""Several processes, as `accelerate launch` starts them: only the main process writes and prints."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle
from dpbart.options.recipes import Schedule
from dpbart.prepare.training import Ids, train_on_corpus

# The kernel refuses every byte that a process other than the main one writes to a file.
PROCESS = """
import json, resource, sys
from accelerate import Accelerator
from dpbart.cli import cli
from dpbart.prepare import clip
clip.LEAST_BLEU = 0.0  # two steps of training teach no model to copy
state = Accelerator()
if not state.is_main_process:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
for command in json.loads(sys.argv[1]):
    cli(command, standalone_mode=False)
    state.wait_for_everyone()
state.end_training()
"""


class Mean(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return (self.weight * batch).mean()


def test_processes_share_each_batch_and_have_their_own_random_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, seen, numbers = np.arange(10, dtype=np.uint32)[:, None], list[list[int]](), list[float]()

    def make_batch(whole: Ids, random: np.random.Generator, step: int) -> tuple[torch.Tensor]:
        seen.append(whole[:, 0].tolist())
        numbers.append(random.random())
        return (torch.from_numpy(whole).float(),)

    schedule = Schedule(steps=1, batch_size=10, learning_rate=1e-3, warmup=1, decay=0.1, seed=0)
    monkeypatch.setattr(Accelerator, "num_processes", 2)
    for index in (1, 0):
        monkeypatch.setattr(Accelerator, "process_index", index)
        monkeypatch.setattr(Accelerator, "is_main_process", index == 0)
        train_on_corpus(
            Mean(), corpus, schedule, make_batch, accelerator=Accelerator(), folder=tmp_path, title="Training"
        )
        assert (tmp_path / "state.pt").exists() == (index == 0)
    assert seen == [[1, 3, 5, 7, 9], [0, 2, 4, 6, 8]]
    assert numbers[0] != numbers[1]
    with pytest.raises(BadParameter, match="a text for each of the 2 processes, got 1"):
        train_on_corpus(
            Mean(),
            corpus,
            schedule.changed(batch_size=1),
            make_batch,
            accelerator=Accelerator(),
            folder=tmp_path,
            title="Training",
        )


def run_in_two_processes(*commands: list[str]) -> list[str]:
    """The standard output of each process."""
    with socket.socket() as kept:  # so that nobody else gets its port; whoever also says REUSEADDR may listen there
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        return run_with_port(kept.getsockname()[1], commands)


def run_with_port(port: int, commands: Sequence[list[str]]) -> list[str]:
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, json.dumps(commands)],
            env={**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    try:
        ended = [process.communicate(timeout=400) for process in reversed(processes)][::-1]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in reversed(list(zip(processes, ended, strict=True))):  # the second fails first
        assert process.returncode == 0, errors[-2000:]
    return [printed for printed, _ in ended]


def test_only_the_main_process_writes_and_prints(tmp_path: Path) -> None:
    texts = [f"{who} {did} {what} ." for who in "abcdefghij" for did in "klmnopqrst" for what in "uvwxyz"]
    (tmp_path / "public.txt").write_text("\n".join(texts))
    base, pruned, noisy, adept = (tmp_path / name for name in ("base", "pruned", "noisy", "adept"))
    source = ["--corpus", str(tmp_path / "public.txt")]
    short = [*source, "--steps", "2", "--batch-size", "4"]
    small = ["--width", "16", "--heads", "2", "--layers", "1", "--vocabulary", "300", "--length", "8"]
    tiny = ["--embedding", "2", "--hidden", "8", "--vocabulary", "40", "--length", "8"]
    measured = ["--texts", "2", "--out"]
    first, second = run_in_two_processes(
        ["prepare", "pretrain", *short, *small, *measured, str(base)],
        ["prepare", "clip", *source, "--texts", "2", "--model", str(base)],
        ["prepare", "prune", *short, "--rounds", "2", "--by", "random", "--model", str(base), *measured, str(pruned)],
        ["prepare", "noisy", *short, "--model", str(pruned), "--out", str(noisy)],
        ["prepare", "adept", *short, *tiny, *measured, str(adept)],
    )
    assert second == ""
    assert first.count("Rewrite with it") == 2
    assert [Bundle.at(made).facts.variant for made in (base, pruned, noisy, adept)] == ["clv", "pr", "pr-plus", "adept"]
    assert (base / "clip.png").is_file()
    assert (pruned / "rounds.png").is_file()
