"""The command that breaks the code on purpose: it finds breaks, notices a test that fails, and mends the copy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import dpbart
from benchmarks.mutants.__main__ import explained
from benchmarks.mutants.breaks import breaks
from benchmarks.mutants.rooms import GUARDS, SLOW, guards, sources

REPOSITORY = Path(__file__).parent.parent
SOURCE = '''"""Words."""

def share(part: float, whole: float = 1.0) -> float:
    """Words: 1 < 2."""
    if not whole > 0:
        raise ValueError(f"{1 + 1}")
    check(part, whole, strict=True)
    return max(part / whole, 0)
'''


def test_each_break_changes_one_thing_and_no_words(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(SOURCE)
    found = list(breaks(tmp_path, "x.py"))
    assert [(each.before, each.after) for each in found] == [
        ("not whole > 0", "whole > 0"),
        ("whole > 0", "whole >= 0"),
        ("whole > 0", "whole > 1"),
        ("raise ValueError(f'{1 + 1}')", "pass"),
        ("check(part, whole, strict=True)", "pass"),
        ("check(part, whole, strict=True)", "check(whole, part, strict=True)"),
        ("check(part, whole, strict=True)", "check(part, whole)"),
        ("strict=True", "strict=False"),
        ("return max(part / whole, 0)", "return None"),
        ("max(part / whole, 0)", "min(part / whole, 0)"),
        ("part / whole", "part * whole"),
        ("max(part / whole, 0)", "max(part / whole, 1)"),
    ]
    assert len({each.source for each in found}) == len(found)
    assert {(each.file, each.place) for each in found} == {("x.py", "share")}


def test_every_file_that_is_broken_has_tests_that_guard_it() -> None:
    files = sources(Path(dpbart.__file__).parent)
    assert {"privacy/sampling.py", "channels/columns.py", "rewrite/durable/commit.py"} <= set(files)
    for file in files:
        assert len(guards(REPOSITORY, file)) > 1, file
    assert sources(Path(dpbart.__file__).parent, under=["channels/co"]) == ["channels/code.py", "channels/columns.py"]


def test_every_entry_of_the_table_names_code_and_tests_that_exist() -> None:
    files = sources(Path(dpbart.__file__).parent)
    for name, tests in GUARDS.items():
        assert any(file.startswith(name) for file in files), name
        for pattern in tests:
            assert list((REPOSITORY / "tests").glob(f"{pattern}.py")), pattern


def test_every_test_that_is_left_out_exists() -> None:
    for each in SLOW:
        file, name = each.split("::")
        assert f"def {name}(" in (REPOSITORY / file).read_text(encoding="utf-8")


BENCH = """
import sys, time
from pathlib import Path
from benchmarks.mutants.bench import Bench
from benchmarks.mutants.breaks import breaks
here, folder = Path(sys.argv[1]), Path(sys.argv[2])
bench, tests = Bench.make(here, folder), ["tests/test_x.py"]
print(bench.measure(tests, timeout=600)[0])
for mutant in breaks(here / "src" / "dpbart", "x.py"):
    bench.start(mutant, tests, timeout=600)
    while (result := bench.result()) is None:
        time.sleep(0.01)
    print(result, mutant.before, "->", mutant.after)
print((folder / "src" / "dpbart" / "x.py").read_text() == (here / "src" / "dpbart" / "x.py").read_text())
"""


def test_a_mutant_survives_only_if_no_test_fails(tmp_path: Path) -> None:
    package, tests = tmp_path / "here" / "src" / "dpbart", tmp_path / "here" / "tests"
    package.mkdir(parents=True)
    tests.mkdir()
    (package / "__init__.py").write_text("")
    (package / "x.py").write_text("def large(number):\n    return number > 10\n")
    (tests / "test_x.py").write_text("from dpbart.x import large\n\ndef test_x():\n    assert large(12) is True\n")
    command = [sys.executable, "-c", BENCH, str(tmp_path / "here"), str(tmp_path / "copy")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "survived",
        "killed return number > 10 -> return None",
        "survived number > 10 -> number >= 10",
        "survived number > 10 -> number > 11",
        "True",
    ]


def test_the_page_explains_mutants_of_code_that_exists() -> None:
    assert len(explained()) > 5
    for change in explained():
        file, place, code = change.split(" · ", 2)
        source = (Path(dpbart.__file__).parent / file).read_text(encoding="utf-8")
        held = " ".join(ast.unparse(ast.parse(source)).split())
        assert place == "module" or place.rpartition(".")[2] in held, change
        assert code.partition(" → ")[0].strip(".") in held, change
