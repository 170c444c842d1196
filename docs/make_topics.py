"""The example of docs/topics.md: a made-up file, rewritten and synthesised, and what `dpbart topics` says of both.

python docs/make_topics.py

It prints what the page quotes, and draws its pictures. Every run draws other noise.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

IMAGES = Path(__file__).parent / "images"
SAYS = {  # made up for this page: what patients of two wards write, and how often in each ward
    "I waited {} hours before anybody called my name.": (5, 2),
    "The waiting room was full and we sat there for {} hours.": (3, 1),
    "My back hurts so much that I cannot sit for {} hours.": (3, 3),
    "I have had this headache for {} days now.": (2, 2),
    "I woke up {} times last night and could not sleep again.": (1, 4),
    "The pills make me feel sick for {} hours after I take them.": (2, 4),
    "The nurse was kind and explained everything in {} minutes.": (2, 3),
    "I called {} times to change my appointment and nobody answered.": (4, 1),
}
ROWS = 2_000


def made_up() -> list[tuple[str, str]]:
    """Ward and text of each row."""
    wards = []
    for number, ward in enumerate(("east", "west")):
        shapes = cycle([shape for shape, often in SAYS.items() for _ in range(often[number])])
        wards.append([(ward, shape.format(2 + row % 7)) for row, shape in enumerate(islice(shapes, ROWS // 2))])
    return [row for pair in zip(*wards, strict=True) for row in pair]


def dpbart(*arguments: object) -> None:
    print("$ dpbart", *(str(each) for each in arguments), flush=True)
    subprocess.run([sys.executable, "-m", "dpbart", *map(str, arguments)], check=True, stderr=subprocess.DEVNULL)


def main() -> None:
    with TemporaryDirectory() as folder:
        notes, private, whole = (Path(folder) / name for name in ("notes.csv", "private.csv", "whole.csv"))
        with notes.open("w", newline="") as handle:
            csv.writer(handle).writerows([("ward", "text"), *made_up()])
        dpbart("rewrite", notes, private, "--epsilon", 8, "--areas", "health,service", "--keep-column", "ward")
        dpbart("topics", private, "--plot", IMAGES / "topics-light.png")
        dpbart("topics", private, "--plot", IMAGES / "topics-dark.png", "--dark")
        dpbart("topics", private, "--by", "ward")
        dpbart("synthesize", notes, whole, "--epsilon", 1, "--areas", "health,service")
        dpbart("topics", whole)


if __name__ == "__main__":
    main()
