"""The privacy card of a run: what is guaranteed, how, for which unit, and what is not covered.

It is written as JSON for programs, and as pages for people. The JSON states the digests of the pages and is signed with
the user's own key, so an auditor can check that nobody has changed any of the three.

Signatures use ed25519, because an auditor then needs only the public key. With a shared secret (HMAC), the auditor
could sign as well. Keys are PEM files. Create a private key with `openssl genpkey -algorithm ed25519 -out sign.pem` and
its public key with `openssl pkey -in sign.pem -pubout -out public.pem`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from dpbart.card.pages import html_page, text_page
from dpbart.card.record import CardFacts, PageDigests, Signature, read_object, shortened
from dpbart.errors import BadParameter, BadTable, MissingExtra
from dpbart.files import write_together

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_UNREADABLE = (OSError, ValueError, TypeError)  # what reading a file that is no key raises

PAGE_TYPES = {"json": "application/json", "html": "text/html", "txt": "text/plain"}  # of a card's files


@dataclass(frozen=True)
class Card(CardFacts):
    """The privacy card of an output: its facts, its JSON and its pages.

    card = rewrite_file(Request(Path("notes.csv"), Path("private.csv")), Settings(epsilon=50))
    print(card.guarantee, card.as_text())
    """

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> Card:
        """The card that a JSON object states."""
        try:
            return _adapter().validate_json(json.dumps(stated))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        unknown = first["type"] in ("extra_forbidden", "unexpected_keyword_argument")
        place = ".".join(str(part) for part in (first["loc"][:-1] if unknown else first["loc"]))
        words = "it has a field that this version does not know" if unknown else first["msg"]
        raise BadParameter(shortened(f"{place}: {words}" if place else words))

    def as_dict(self) -> dict[str, Any]:
        """The content of the JSON. An infinite epsilon or number of bits is null, and then `private` is false."""
        stated: dict[str, Any] = json.loads(_adapter().dump_json(self, exclude_defaults=True))
        return stated

    def as_text(self) -> str:
        """The page for a terminal."""
        return text_page(self)

    def as_html(self) -> str:
        """The page for a browser, self-contained and without scripts."""
        return html_page(self)

    def as_json(self, key: Ed25519PrivateKey | None = None) -> str:
        """One JSON object, signed if there is a key."""
        return self.files(key)["json"]

    def files(self, key: Ed25519PrivateKey | None = None) -> dict[str, str]:
        """The JSON, with the digests of the pages and signed if there is a key, and both pages, by their endings."""
        pages = {"txt": self.as_text(), "html": self.as_html()}
        digests = {kind: hashlib.sha256(page.encode()).hexdigest() for kind, page in pages.items()}
        card = replace(self, pages=PageDigests(**digests), signature=None)
        if key is not None:
            card = replace(card, signature=sign(card.as_dict(), key))
        return {"json": json.dumps(card.as_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n", **pages}

    def write(
        self, file: Path, key: Ed25519PrivateKey | None = None, *, ready: Callable[[], None] = lambda: None
    ) -> None:
        """Write the JSON to the file, and the pages next to it. Each is written completely or not at all.

        `ready` is called when all three are on disk, before the first of them appears under its name.
        """
        contents, (text, page) = self.files(key), pages_next_to(file)
        write_together({text: contents["txt"], page: contents["html"], file: contents["json"]}, ready=ready)


@cache
def _adapter() -> TypeAdapter[Card]:
    return TypeAdapter(Card)


def schema() -> dict[str, Any]:
    """The JSON schema of a card, from the record. docs/card.schema.json holds it."""
    made = _adapter().json_schema()
    for part in (made, *made["$defs"].values()):
        part["description"] = part["description"].partition("\n")[0]  # the first line of a docstring
    return {"$schema": GenerateJsonSchema.schema_dialect, **made}


def read_card(file: Path) -> Card:
    """Read a card."""
    try:
        return Card.of(read_object(file))
    except BadParameter as error:
        raise BadTable(f"{str(file)!r} is not a valid privacy card: {error}. Give OUT.card.json.") from None


def pages_next_to(file: Path) -> tuple[Path, Path]:
    """The paths of the text and HTML pages, next to the card's JSON.

    >>> [page.name for page in pages_next_to(Path("out.csv.card.json"))]
    ['out.csv.card.txt', 'out.csv.card.html']
    """
    return file.with_suffix(".txt"), file.with_suffix(".html")


def sign(stated: Mapping[str, Any], key: Ed25519PrivateKey) -> Signature:
    """The signature of a card's JSON object, with the public key that checks it."""
    public, value = key.public_key().public_bytes_raw(), key.sign(_canonical(stated))
    return Signature("ed25519", base64.b64encode(public).decode(), base64.b64encode(value).decode())


def signed_by(stated: Mapping[str, Any], signature: Signature, key: Ed25519PublicKey | None) -> bool:
    """Whether a signature matches a card's JSON object and the key. Without a key, the one inside the card is used."""
    with _needs_extra():
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    try:
        public = key or Ed25519PublicKey.from_public_bytes(base64.b64decode(signature.public_key))
        public.verify(base64.b64decode(signature.value), _canonical(stated))
    except (InvalidSignature, ValueError):
        return False
    return True


def _canonical(stated: Mapping[str, Any]) -> bytes:
    """The bytes that are signed: the object as it was read, without its signature, in canonical JSON.

    They do not come from the record: a later version may have more fields.
    """
    signed = {name: value for name, value in stated.items() if name != "signature"}
    return json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()


def read_private_key(file: Path) -> Ed25519PrivateKey:
    """Read a private key that has no passphrase."""
    with _needs_extra():
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    with suppress(*_UNREADABLE):
        key = load_pem_private_key(file.read_bytes(), password=None)
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise _no_key(file, "private")


def read_public_key(file: Path) -> Ed25519PublicKey:
    """Read a public key."""
    with _needs_extra():
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    with suppress(*_UNREADABLE):
        key = load_pem_public_key(file.read_bytes())
        if isinstance(key, Ed25519PublicKey):
            return key
    raise _no_key(file, "public")


@contextmanager
def _needs_extra() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise MissingExtra("signatures need an extra package. Install it with: pip install 'dpbart[sign]'") from None


def _no_key(file: Path, kind: str) -> BadParameter:
    return BadParameter(
        f"{str(file)!r} must be an ed25519 {kind} key in PEM, without a passphrase. "
        "Create one with: openssl genpkey -algorithm ed25519 -out sign.pem"
    )
