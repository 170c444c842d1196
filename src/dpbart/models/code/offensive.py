"""Lines that a model shown to strangers must not learn from: slurs, sexual and hateful terms.

Random codes are read as random texts, so what the writer has learned is what strangers may be shown. The words stand
here as hashes (BLAKE2b, 4 bytes), so that nobody has to read them. Words that are harmless in most texts are among
them too: dropping too many of millions of lines costs nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

_WORDS = frozenset(  # whole words
    [
        "017a3c38",
        "022f46ba",
        "025c54f2",
        "033565d9",
        "03d6cc69",
        "03efe54e",
        "058c163a",
        "05a68caa",
        "06b1edc7",
        "07d47bfd",
        "0985721d",
        "0d67ef00",
        "14d630a8",
        "19292049",
        "1baa7433",
        "1bdb42dc",
        "1beae8c3",
        "222379e2",
        "227eb7bd",
        "234ba20a",
        "2579acdb",
        "25c12c19",
        "28475085",
        "2b813759",
        "2b97ae47",
        "2dfceb9b",
        "2f3253da",
        "309c598b",
        "31ddc40e",
        "3745bb05",
        "388ee641",
        "3894a0eb",
        "3957dc7f",
        "3a707c91",
        "3c49c944",
        "3efd1bf0",
        "40116748",
        "453ee9a4",
        "464339a7",
        "495e60fa",
        "4da9bbc1",
        "4e6aa5cd",
        "5023843b",
        "55af4a91",
        "56457bdf",
        "57596162",
        "59b533f8",
        "59b7f7be",
        "5dee9fc0",
        "62aac3a3",
        "645c2399",
        "68daaa35",
        "69816458",
        "6bb875a3",
        "6bff6abc",
        "6fa07177",
        "70bbd697",
        "7155d165",
        "7740431e",
        "77a9246f",
        "79d18a39",
        "7ce33163",
        "7e312acc",
        "7f171bc3",
        "80d103d6",
        "830ca95f",
        "847b2490",
        "8514bdf1",
        "85491213",
        "85fcf0fc",
        "882e83ff",
        "88be660d",
        "8a04ab3b",
        "8bb85765",
        "93604065",
        "94aaff2b",
        "961c77dc",
        "99769d92",
        "9ad4c48d",
        "9c142f2f",
        "9c88724b",
        "9d0507e0",
        "9d2b4719",
        "9dee248d",
        "9f12d172",
        "a05586bc",
        "a0e24700",
        "a0e4aa8c",
        "a3b4c16b",
        "a43ad8d2",
        "a70a290e",
        "a82a2042",
        "a82a297e",
        "a8f44abf",
        "a97d78bc",
        "ab0e1d85",
        "ad729ad2",
        "ae955ae2",
        "b021189e",
        "b1943bb7",
        "b31aee28",
        "b3689c5c",
        "b50cf476",
        "b9158819",
        "ba0bbd96",
        "bcbd0b0a",
        "bdfb52fd",
        "c10806b1",
        "c3621d14",
        "c5aef8d8",
        "c5d01874",
        "c738174c",
        "c7c2800f",
        "c7f00331",
        "ca02a64a",
        "cc2abcc1",
        "cca4a3f0",
        "cf62ae5b",
        "d268e2e8",
        "d31c005a",
        "d499e055",
        "d4d71a19",
        "d5fbc2e1",
        "d660f8b2",
        "db53ad49",
        "dc04973f",
        "dcb8d8a6",
        "ddb42f83",
        "dfa23195",
        "e179f243",
        "e287a67e",
        "e44d56f8",
        "e979124f",
        "eb8cadc9",
        "ebc41574",
        "ee899733",
        "ef89bbe4",
        "f3569b5c",
        "f3d591bb",
        "f6e7f470",
        "f731f540",
        "f7acabff",
        "fb9baa67",
        "fba33e1b",
        "fd8316ff",
        "ff68f2a1",
    ]
)
_STEMS = frozenset(  # beginnings of words
    [
        "0a68d9cc",
        "0b03cbae",
        "142de53d",
        "1502ab76",
        "1ede7d3c",
        "24c93de5",
        "310045d3",
        "38d02ed7",
        "41ef11e9",
        "4e3226e5",
        "4eaa96c1",
        "5d0ac449",
        "5fd628d1",
        "64cf5377",
        "6d6fe3b3",
        "78cda91f",
        "8a46fd62",
        "8bcffa41",
        "b36b6dff",
        "caea805a",
        "d4a5dbcf",
        "dc215589",
        "def31f94",
        "e2320721",
        "ebb11112",
        "ed57b277",
        "f3cde82b",
        "f565e36c",
        "fcda0955",
        "fcf485a2",
    ]
)
_PARTS = frozenset(  # parts of words
    ["98b53b67", "caea805a", "ebb11112"]
)
_MASKED = re.compile(r"f\*+k|f\*ck|sh\*t")
_WORD = re.compile(r"[a-z*-]+")
_SHORTEST, _LONGEST = 3, 11  # letters of a beginning


def is_offensive(text: str) -> bool:
    """Whether a line has one of the words."""
    return any(_is_offensive_word(word) for word in _WORD.findall(text.lower()))


@lru_cache(maxsize=1 << 20)
def _is_offensive_word(word: str) -> bool:
    if _MASKED.search(word):
        return True
    for part in (each for each in re.split(r"[^a-z]", word) if each):
        if _hash(part) in _WORDS or any(_hash(part[:end]) in _STEMS for end in range(_SHORTEST, _LONGEST + 1)):
            return True
        if any(_hash(part[at : at + size]) in _PARTS for size in (4, 5, 6) for at in range(len(part) - size + 1)):
            return True
    return any(_hash(joined) in _WORDS for joined in _hyphenated(word))


def _hyphenated(word: str) -> list[str]:
    """Two parts and the hyphen between them."""
    parts = word.split("-")
    return [f"{first}-{second}" for first, second in pairwise(parts)]


def _hash(word: str) -> str:
    return blake2b(word.encode(), digest_size=4).hexdigest()
