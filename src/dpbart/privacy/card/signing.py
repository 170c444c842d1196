"""Signatures: a card is signed with the user's own key, so an auditor can check that nobody has changed it.

Signatures use ed25519, because an auditor then needs only the public key. With a shared secret (HMAC), the auditor
could sign as well. Keys are PEM files. Create a private key with `openssl genpkey -algorithm ed25519 -out sign.pem` and
its public key with `openssl pkey -in sign.pem -pubout -out public.pem`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dpbart.errors import BadParameter, MissingExtra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ALGORITHM = "ed25519"
SIGNATURE = "signature"  # the one field of a card that is not signed


def canonical(card: Mapping[str, object]) -> bytes:
    """The bytes that are signed: the card without its signature, in canonical JSON."""
    held = {name: value for name, value in card.items() if name != SIGNATURE}
    return json.dumps(held, sort_keys=True, separators=(",", ":")).encode()


def sign(card: Mapping[str, object], key: Ed25519PrivateKey) -> dict[str, str]:
    """The signature of a card, with the public key that checks it."""
    public = key.public_key().public_bytes_raw()
    value = key.sign(canonical(card))
    return {"algorithm": ALGORITHM, "public_key": _text(public), "value": _text(value)}


def signed_by(card: Mapping[str, object], key: Ed25519PublicKey | None) -> bool:
    """Whether the signature matches the card and the key. Without a key, the one inside the card is used."""
    with _needs_extra():
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    held = card.get(SIGNATURE)
    if not isinstance(held, Mapping) or held.get("algorithm") != ALGORITHM:
        return False
    try:
        public = key or Ed25519PublicKey.from_public_bytes(base64.b64decode(str(held["public_key"])))
        public.verify(base64.b64decode(str(held["value"])), canonical(card))
    except (InvalidSignature, ValueError, KeyError):
        return False
    return True


def read_private_key(file: Path) -> Ed25519PrivateKey:
    """Read a private key that has no passphrase.

    Raises:
        BadParameter: The file is not such a key.
        MissingExtra: The package for signatures is not installed.
    """
    with _needs_extra():
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    with _one_line_errors(file, "private"):
        key = load_pem_private_key(file.read_bytes(), password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError
    return key


def read_public_key(file: Path) -> Ed25519PublicKey:
    """Read a public key.

    Raises:
        BadParameter: The file is not a public key.
        MissingExtra: The package for signatures is not installed.
    """
    with _needs_extra():
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    with _one_line_errors(file, "public"):
        key = load_pem_public_key(file.read_bytes())
        if not isinstance(key, Ed25519PublicKey):
            raise ValueError
    return key


@contextmanager
def _needs_extra() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise MissingExtra("signatures need an extra package. Install it with: pip install 'dpbart[sign]'") from None


@contextmanager
def _one_line_errors(file: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError):
        raise BadParameter(
            f"{str(file)!r} must be an ed25519 {kind} key in PEM, without a passphrase. "
            "Create one with: openssl genpkey -algorithm ed25519 -out sign.pem"
        ) from None


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
