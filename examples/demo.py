"""Rewrite thirty made-up texts at several budgets, show them side by side, and print one privacy card.

The demo calls the `dpbart rewrite` command, as a user would, and writes to the folder demo/.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

FOLDER = Path("demo")
BUDGETS = ("100", "50", "10")  # epsilon; another column shows the same path without noise
SHOWN = 10
TEXTS = """\
I saw my doctor in Leeds on Tuesday about my knee.
play the latest album by the band my sister likes
Could you book a table for four at the harbour grill tonight?
The battery of this phone is dead after two hours.
My son has been ill since we came back from the lake.
what is the cheapest flight from Boston to Denver on Monday
I have worked for the same company for eleven years.
Best headphones I have ever owned, and the price was fair.
Please remind me to call the bank before noon.
The movie was too long and the ending made no sense.
Our neighbours are selling their house and moving to Spain.
She takes two of the white tablets every morning.
will it rain in Portland tomorrow afternoon
The nurse was kind, but we waited for three hours.
I lost my job in March and have not told my wife.
add this song to my running playlist
The soup was cold and nobody said sorry.
We are looking for a flat near the old station.
My brother plays the trumpet in a wedding band.
How do I get a refund for a broken kettle?
The patient complains of pain in the lower back.
He asked whether the museum is open on Sundays.
This book taught me more than four years of college.
I think the new manager does not like me.
find me a recipe with rice, beans and lime
The train to Manchester was late again this morning.
After the operation he slept for almost two days.
Is there a pharmacy that is open at night?
They adopted a small black dog from the shelter.
Thank you for the flowers, they are lovely.
"""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    source = FOLDER / "texts.csv"
    with source.open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["id", "text"])
        rows.writerows(enumerate(TEXTS.splitlines(), start=1))
    columns = {"original": texts_of(source), "no noise": rewritten(source, "none", "--mechanism", "none")}
    for budget in BUDGETS:
        columns[f"epsilon {int(budget):,}"] = rewritten(source, budget, "--epsilon", budget)
    show(columns)
    print((FOLDER / f"rewritten-{BUDGETS[-1]}.csv.card.txt").read_text(encoding="utf-8"))
    print(f"All texts, outputs and cards are in {FOLDER}/.")


def rewritten(source: Path, name: str, *options: str) -> list[str]:
    target = FOLDER / f"rewritten-{name}.csv"
    command = [sys.executable, "-m", "dpbart", "rewrite", str(source), str(target), "--overwrite", *options]
    print("$ dpbart", " ".join(command[3:]), file=sys.stderr)
    subprocess.run(command, check=True)
    return texts_of(target)


def texts_of(file: Path) -> list[str]:
    with file.open(newline="", encoding="utf-8") as rows:
        return [row["text"] for row in csv.DictReader(rows)]


def show(columns: dict[str, list[str]]) -> None:
    table = Table(title=f"{SHOWN} of {len(columns['original'])} texts", show_lines=True)
    for name in columns:
        table.add_column(name, ratio=1)
    for row in list(zip(*columns.values(), strict=True))[:SHOWN]:
        table.add_row(*row)
    console = Console()
    Console(width=max(console.width, 150) if not console.is_terminal else console.width).print(table)


if __name__ == "__main__":
    main()
