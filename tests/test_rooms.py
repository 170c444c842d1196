"""Data walks through the rooms in one direction, and so do imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import dpbart

PACKAGE = Path(dpbart.__file__).parent
MAY_IMPORT = {
    "privacy": {"privacy"},
    "models": {"privacy", "models"},
    "tables": {"tables"},
    "prepare": {"privacy", "models", "prepare"},
    "rewrite": {"privacy", "models", "tables", "rewrite"},
    "evaluate": {"privacy", "models", "tables", "prepare", "rewrite", "evaluate"},
    "cli": {"privacy", "models", "tables", "prepare", "rewrite", "evaluate", "cli"},
}


def imported_modules(file: Path) -> list[str]:
    """`import a.b`, and `from a import b` as both a and a.b."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            found += [str(node.module), *(f"{node.module}.{name.name}" for name in node.names)]
    return found


def test_imports_point_one_way() -> None:
    wrong = []
    for room, allowed in MAY_IMPORT.items():
        for file in (PACKAGE / room).rglob("*.py"):
            for module in imported_modules(file):
                parts = module.split(".")
                if parts[0] == "dpbart" and len(parts) > 1 and parts[1] in MAY_IMPORT and parts[1] not in allowed:
                    wrong.append(f"{file.relative_to(PACKAGE)} imports {module}")
    assert wrong == []


def test_the_privacy_room_knows_no_model() -> None:
    used = {name.split(".")[0] for file in (PACKAGE / "privacy").rglob("*.py") for name in imported_modules(file)}
    assert used.isdisjoint({"torch", "transformers", "tokenizers", "accelerate"})


SEEDABLE = {"random", "manual_seed", "default_rng", "Generator", "RandomState", "seed", "normal_", "uniform_"}
SEEDABLE |= {"rand", "randn", "randint", "rand_like", "randn_like", "normal", "bernoulli", "multinomial"}


def test_nothing_on_the_private_path_uses_a_seedable_generator() -> None:
    for room in ("privacy", "models", "rewrite"):
        for file in (PACKAGE / room).rglob("*.py"):
            assert not [name for name in imported_modules(file) if {"random", "torch.random"} & set(name.split("."))], (
                file
            )
            tree = ast.walk(ast.parse(file.read_text()))
            used = {node.attr for node in tree if isinstance(node, ast.Attribute)}
            assert not used & SEEDABLE, f"{used & SEEDABLE} in {file}"


def test_only_pruning_processes_a_private_latent_further() -> None:
    users = {file.name for file in PACKAGE.rglob("*.py") if ".post_processed(" in file.read_text()}
    assert users == {"pruning.py"}


def test_help_loads_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from dpbart.cli import cli\n"
        "for args in (['--help'], ['rewrite', '-h'], ['noise', '-h'], ['models', 'import', '-h'], "
        "['prepare', 'pretrain', '-h'], ['datasets', 'list', '-h'], ['evaluate', 'downstream', '-h'], "
        "['experiment', 'run', '-h']):\n"
        "    assert CliRunner().invoke(cli, args).exit_code == 0, args\n"
        "print([m for m in ('torch', 'transformers', 'numpy', 'pyarrow', 'matplotlib', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
