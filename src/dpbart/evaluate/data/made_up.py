"""Made-up texts with names and numbers that are known, to measure how many come through a rewriting.

Every name is in common use and belongs to nobody here. Phone numbers are from 555-0100 to 555-0199, which are reserved
for fiction. No text is taken from a corpus.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpbart.errors import BadParameter

_FIRST = """
    Ada Agnes Alistair Amara Anton Beatrix Bogdan Camille Cedric Clara Conrad Dagmar Declan Delphine Dmitri Edith Elias
    Emeka Esther Farid Fiona Florian Gideon Greta Hana Hector Ingrid Ismail Ivo Jasmin Jonas Kamala Keiko Lars Leila
    Lorenzo Magnus Maren Mateo Mirela Nadia Nikhil Octavia Olga Pascal Petra Quentin Rafael Ramona Rosalind Rupert
    Saskia Selim Sigrid Stefan Tamara Theo Ulrike Valentin Wanda Xenia Yusuf Zelda
"""
_LAST = """
    Abernathy Adeyemi Almeida Andersson Baptiste Beaumont Bergström Castellano Chowdhury Delacroix Dimitrov Eriksen
    Fairweather Fernandez Fitzgerald Galloway Gruber Hakimi Hartmann Holloway Ibrahim Iversen Jankowski Kapoor
    Kowalczyk Laurent Lindqvist Macready Marchetti Moreau Nakamura Novak Oduya Okonkwo Papadakis Pemberton Petrov
    Quigley Ramaswamy Rasmussen Rosenthal Sandoval Schreiber Tanaka Thorvald Ueda Underhill Vasquez Volkov Weatherby
    Winslow Yilmaz Zamora Zielinski
"""
_PLACES = """
    Aberdeen Antwerp Bergen Bologna Bratislava Bristol Cardiff Cork Cracow Dresden Dundee Fresno Galway Geneva Ghent
    Graz Halifax Innsbruck Kampala Leeds Lille Linz Ljubljana Lyon Malmö Mombasa Nagoya Nantes Norwich Odense Omaha
    Porto Pune Quito Reno Salzburg Seville Spokane Tampere Toledo Trieste Tucson Turin Uppsala Utrecht Winnipeg Zagreb
"""
_MONTHS = "January February March April May June July August September October November December"

# Each shape has at least one name and one number.
SHAPES = """
    My name is {first} {last} and my phone number is {phone}.
    {first} moved to {place} in {year}.
    Please call {first} {last} on {phone} before noon.
    I paid {amount} dollars to {last} for the repair.
    The appointment of {first} {last} is on {day} {month} {year}.
    We met {first} at the station in {place} at {time}.
    Flight {flight} from {place} was late, so {first} missed dinner.
    Doctor {last} saw me on {day} {month} and charged {amount} euros.
    {first} {last} was born on {date} in {place}.
    The parcel for {last} went to {house} Mill Road, {place}.
    Can you send {amount} pounds to {first} {last} today?
    My sister {first} lives at {house} Station Street in {place}.
    Invoice {invoice} was signed by {last} in {place}.
    I have known {first} since {year}, when we both worked in {place}.
    Room {room} is booked for {first} {last} until {day} {month}.
    {first} earns {amount} a month at a bakery in {place}.
    Did {last} really sell the house in {place} for {amount}?
    On {date} I had lunch with {first} in {place}.
    My landlord, {first} {last}, wants {amount} by {day} {month}.
    The hotel in {place} gave us room {room}, said {first}.
    Ask for {first} at the desk, or dial {phone}.
    {last} ordered the soup at {time} and never came back to {place}.
    I am {first}, I am {age} years old, and I live in {place}.
    In {year} the {last} family left {place} for good.
    Our teacher {last} turned {age} on {day} {month}.
    The nurse gave {first} {last} ticket {invoice} and told her to wait.
    {first} lost a wallet with {amount} dollars near the market in {place}.
    Train {flight} to {place} leaves at {time}, so wake {first} early.
    I was treated by {last} in {place} from {year} to this day.
    Tell {first} that the meeting on {date} is at {time}.
    The number of {first} is {phone}, and the door code is {invoice}.
    {first} and I were married in {place} on {day} {month} {year}.
"""
_NAMES = ("first", "last", "place")
_NUMBER = r"\d+(?:[-:/.,]\d+)*"


@dataclass(frozen=True)
class MadeUp:
    """A text, and the details in it."""

    text: str
    names: tuple[str, ...]  # of people and places, word by word
    numbers: tuple[str, ...]  # of phones, amounts, times, houses, and the numbers in dates


def make_up(count: int, *, seed: int = 0) -> list[MadeUp]:
    """So many different texts, with all shapes in turn. The same seed gives the same texts.

    >>> make_up(1)[0].text.startswith("My name is ")
    True
    """
    if count < 1:
        raise BadParameter(f"texts must be at least 1, got {count}.")
    dice = random.Random(seed)
    shapes = [line.strip() for line in SHAPES.strip().splitlines()]
    made: dict[str, MadeUp] = {}
    while len(made) < count:
        new = _fill(shapes[len(made) % len(shapes)], dice)
        made.setdefault(new.text, new)
    return list(made.values())


def _fill(shape: str, dice: random.Random) -> MadeUp:
    filled = {slot: _SLOTS[slot](dice) for slot in re.findall(r"{(\w+)}", shape)}
    names = tuple(value for slot, value in filled.items() if slot in _NAMES)
    others = [value for slot, value in filled.items() if slot not in _NAMES]
    return MadeUp(shape.format(**filled), names, tuple(each for value in others for each in re.findall(_NUMBER, value)))


def _one_of(words: str) -> Callable[[random.Random], str]:
    choices = words.split()
    return lambda dice: dice.choice(choices)


_SLOTS: Mapping[str, Callable[[random.Random], str]] = {
    "first": _one_of(_FIRST),
    "last": _one_of(_LAST),
    "place": _one_of(_PLACES),
    "month": _one_of(_MONTHS),
    "day": lambda dice: str(dice.randint(1, 28)),
    "year": lambda dice: str(dice.randint(1951, 2019)),
    "date": lambda dice: f"{dice.randint(1, 28):02}/{dice.randint(1, 12):02}/{dice.randint(1951, 2019)}",
    "time": lambda dice: f"{dice.randint(7, 22)}:{dice.randint(0, 59):02}",
    "phone": lambda dice: f"555-01{dice.randint(0, 99):02}",
    "amount": lambda dice: f"{dice.randint(1, 9)},{dice.randint(0, 999):03}",
    "house": lambda dice: str(dice.randint(11, 399)),
    "room": lambda dice: str(dice.randint(101, 999)),
    "age": lambda dice: str(dice.randint(18, 97)),
    "flight": lambda dice: str(dice.randint(1000, 9999)),
    "invoice": lambda dice: str(dice.randint(10_000, 99_999)),
}
