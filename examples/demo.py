"""Rewrite thirty made-up texts at several budgets, show them side by side, and print one privacy card.

The texts are what a clinic might hear from its patients: short messages, and one long letter. Everybody may know that,
so the smallest budget goes with --areas health. The demo calls the `dpbart rewrite` command, as a user would, and
writes to the folder demo/.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

FOLDER = Path("demo")
BUDGETS = {"50": (), "20": (), "10": (), "4": ("--areas", "health")}  # epsilon, and further options
SHOWN = 10
TEXTS = """\
I saw my doctor in Leeds on Tuesday about my knee.
My mother was on your ward for nine days in March, and I want to tell you how it went. The surgeon explained \
everything twice, drew us a picture and never made us feel that we were in her way. The nurses came at once when \
the pain got worse, even at four in the morning. The food was cold most days, and on two evenings she got none \
at all because nobody had passed on that she cannot eat gluten. The worst was the day she went home: we waited \
from ten until half past five for one letter, and her tablets were not ready either. She is walking again now, \
with a stick, and we are grateful to everybody who looked after her. Please do something about the food and the \
waiting.
She takes two of the white tablets every morning.
The nurse was kind, but we waited for three hours.
My son has been ill since we came back from the lake.
The patient complains of pain in the lower back.
After the operation he slept for almost two days.
I would like to move my appointment to Friday afternoon.
Is there a pharmacy that is open at night?
I have lost eleven pounds since I began to walk to work.
You have charged me twice for the same blood test.
The new pills make me dizzy whenever I stand up.
Can I drink a glass of wine while I take this antibiotic?
Nobody at the front desk could tell me when the doctor would be free.
My daughter has had a fever of thirty-nine since Sunday.
The dentist in Hull pulled the wrong tooth.
I cannot sleep without the tablets any more.
Thank you for taking such good care of my father.
He fell off a ladder in April and still cannot lift his arm.
The receptionist shouted my diagnosis across the waiting room.
My eyes itch and I sneeze as soon as the birch trees bloom.
I lost my job in March and have not felt well since.
The physiotherapist showed me six exercises for my shoulder.
Does the vaccine cost anything for people over sixty?
We were told that the scan shows nothing to worry about.
The baby drinks well but has not gained weight for two weeks.
My hearing aid whistles whenever I pick up the phone.
The bandage was changed every second day at home.
I felt that the specialist did not believe me.
After three months without cigarettes I can smell the rain again.
"""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    source = FOLDER / "texts.csv"
    with source.open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["id", "text"])
        rows.writerows(enumerate(TEXTS.splitlines(), start=1))
    columns = {"original": texts_of(source)}
    for budget, more in BUDGETS.items():
        columns[" ".join(("epsilon", budget, *more))] = rewritten(source, budget, *more)
    show(columns)
    print((FOLDER / f"rewritten-{list(BUDGETS)[-1]}.csv.card.txt").read_text(encoding="utf-8"))
    print(f"All texts, outputs and cards are in {FOLDER}/.")


def rewritten(source: Path, budget: str, *more: str) -> list[str]:
    target = FOLDER / f"rewritten-{budget}.csv"
    options = ["--overwrite", "--epsilon", budget, *more]
    command = [sys.executable, "-m", "dpbart", "rewrite", str(source), str(target), *options]
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
