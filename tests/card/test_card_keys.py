"""Keys of other kinds do not sign cards and do not check them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from dpbart.card.card import read_private_key, read_public_key
from dpbart.errors import BadParameter


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    key = X25519PrivateKey.generate()  # PEM as well, but for encryption
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(BadParameter, match="must be an ed25519 private key in PEM"):
        read_private_key(private)
    with pytest.raises(BadParameter, match="must be an ed25519 public key in PEM"):
        read_public_key(public)
