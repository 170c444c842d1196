"""Several processes, as `accelerate launch` starts them: only the main process writes and prints."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from dpbart.models.bundle import Bundle

# The kernel refuses every byte that a process other than the main one writes to a file.
PROCESS = """
import json, resource, sys
from accelerate import Accelerator
from dpbart.cli import cli
state = Accelerator()
if not state.is_main_process:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
for command in json.loads(sys.argv[1]):
    cli(command, standalone_mode=False)
    state.wait_for_everyone()
state.end_training()
"""


def run_in_two_processes(*commands: list[str]) -> list[str]:
    """The standard output of each process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
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
