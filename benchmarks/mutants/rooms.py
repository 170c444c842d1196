"""Which files are broken, and which tests guard each of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOMS = ("privacy", "ledger", "card", "channels", "rewrite/durable", "web")

# For a file, the entry with the longest name that its path begins with. The tests that fail soonest come first.
GUARDS: dict[str, tuple[str, ...]] = {
    "privacy/": ("privacy/test_facts", "privacy/test_mechanisms", "privacy/test_response"),
    "ledger/": ("ledger/test_ledger", "ledger/test_listing", "cli/test_budget"),
    "ledger/ids": ("ledger/test_ids", "cli/test_budget"),
    "card/": ("card/test_*",),
    "card/figures": ("card/test_card_shuffled", "card/test_card_verify", "kept/test_kept"),
    "card/verify": ("card/test_card_shuffled", "card/test_card_verify", "card/test_card", "kept/test_kept"),
    "privacy/calibration": ("privacy/test_edges", "privacy/test_calibration", "privacy/test_composition"),
    "privacy/clipping": ("privacy/test_edges", "privacy/test_clipping", "privacy/test_mechanisms"),
    "privacy/guarantee": ("privacy/test_edges", "privacy/test_calibration", "privacy/test_composition"),
    "privacy/mechanisms/": ("privacy/test_facts", "privacy/test_edges", "privacy/test_mechanisms", "privacy/test_bits"),
    "privacy/mechanisms/response": (
        "privacy/test_facts",
        "privacy/test_edges",
        "privacy/test_response",
        "privacy/test_mechanisms",
    ),
    "privacy/sampling": (
        "privacy/test_edges",
        "privacy/test_facts",
        "privacy/test_sampling",
        "privacy/test_mechanisms",
    ),
    "privacy/scale": ("privacy/test_scale",),
    "privacy/shuffling/": ("privacy/test_shuffling*",),
    "privacy/shuffling/release": ("privacy/test_shuffled_release", "card/test_card_shuffled"),
    "privacy/composition": ("privacy/test_composition", "ledger/test_ledger"),
    "channels/": ("channels/test_*",),
    "web/": ("web/test_security", "web/test_api", "web/test_jobs", "web/test_races"),
    "web/queue": ("web/test_queue", "web/test_limits", "web/test_budget", "web/test_storage"),
    "web/bodies": ("web/test_api", "web/test_job_options", "web/test_security"),
    "web/figures": ("web/test_people", "web/test_budget", "web/test_api"),
    "web/guard": ("web/test_protocol", "web/test_security", "web/test_limits", "cli/test_serve"),
    "web/server": ("cli/test_serve", "web/test_protocol"),
    "web/job": ("web/test_jobs", "web/test_job_options", "web/test_columns", "web/test_races", "web/test_security"),
    "web/jobs": ("web/test_jobs", "web/test_races", "web/test_limits", "web/test_security"),
    "web/work": ("web/test_collections", "web/test_jobs", "web/test_job_options"),
    "web/transfers": ("web/test_jobs", "web/test_races", "web/test_storage", "web/test_protocol"),
    "web/releases": ("web/test_storage", "web/test_budget", "web/test_card", "web/test_api", "web/test_races"),
    "web/app": ("web/test_jobs", "web/test_races", "web/test_storage", "web/test_protocol"),
    "rewrite/durable/": (
        "rewrite/test_copies",
        "rewrite/test_own_files",
        "rewrite/test_meanwhile",
        "rewrite/test_resume",
    ),
}

# Left out: they take long, or wait for another process, and the other tests of their files notice what they notice.
SLOW = (
    "tests/privacy/test_composition.py::test_no_release_is_ever_refunded",
    "tests/privacy/test_composition.py::test_k_gaussians_equal_one_with_sqrt_k_times_the_sensitivity",
    "tests/privacy/test_composition.py::test_responses_agree_with_dp_accounting",
    "tests/ledger/test_ids.py::test_a_normal_form_does_not_change_again",
    "tests/ledger/test_ledger.py::test_eight_processes_on_one_ledger_do_not_overspend",
    "tests/ledger/test_ledger.py::test_a_ledger_locked_by_another_process_gives_a_clear_error",
)


def sources(package: Path, *, under: Sequence[str] = ()) -> list[str]:
    """The files to break, relative to the package; `under` narrows them to folders or files."""
    found = [file.relative_to(package).as_posix() for room in ROOMS for file in (package / room).rglob("*.py")]
    return sorted(file for file in found if file.startswith(tuple(under) or ""))


@cache
def guards(repository: Path, file: str) -> tuple[str, ...]:
    """The tests of one file, and its own doctests, relative to the repository."""
    patterns = max(((len(name), tests) for name, tests in GUARDS.items() if file.startswith(name)), default=(0, ()))[1]
    tests = repository / "tests"
    found = [each for pattern in patterns for each in sorted(tests.glob(f"{pattern}.py"))]
    return (f"src/dpbart/{file}", *dict.fromkeys(each.relative_to(repository).as_posix() for each in found))
