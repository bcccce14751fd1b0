"""The envelope: an in-toto statement about the steps, in DSSE, signed with ed25519. Keys are PEM files."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backproof.errors import InputError, UsageError
from backproof.receipt.tensor.manifest import canonical, digest, parse

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://backproof.dev/training-steps/v1"


@dataclass(frozen=True)
class Key:
    """An ed25519 key: the public half, and the private one where there is one."""

    public: Any
    private: Any = None

    @property
    def id(self) -> str:
        """The sha256 of the public key's bytes."""
        return hashlib.sha256(self.public.public_bytes_raw()).hexdigest()


@dataclass(frozen=True)
class Signed:
    """What an envelope holds: the manifest, the bytes that were signed, and the signatures by key."""

    manifest: Any
    message: bytes
    signatures: tuple[tuple[str, bytes], ...]
    subjects: tuple[tuple[str, str], ...] = ()

    def signed_by(self, key: Key) -> bool:
        """Whether one of the signatures is this key's."""
        from cryptography.exceptions import InvalidSignature

        for _, signature in self.signatures:
            try:
                key.public.verify(signature, self.message)
            except InvalidSignature:
                continue
            return True
        return False


def subjects_of(manifest: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What a statement speaks of: each step, by the digest of its manifest."""
    return tuple((f"step {step['step']}", digest(step)) for step in manifest["steps"])


def sealed(manifest: Mapping[str, Any], key: Key) -> bytes:
    """The manifest as a signed envelope."""
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": found}} for name, found in subjects_of(manifest)],
        "predicateType": PREDICATE,
        "predicate": manifest,
    }
    payload = canonical(statement)
    signature = key.private.sign(_message(payload))
    return canonical(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"keyid": key.id, "sig": base64.b64encode(signature).decode()}],
        }
    )


def unsealed(data: Any, place: str) -> Signed:
    """What is in an envelope; its signatures are for the verifier."""
    try:
        payload = base64.b64decode(data["payload"], validate=True)
        found = tuple(
            (str(entry.get("keyid", "")), base64.b64decode(entry["sig"], validate=True)) for entry in data["signatures"]
        )
        right = data["payloadType"] == PAYLOAD_TYPE
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{place}: not a DSSE envelope: {type(error).__name__} {error}") from None
    if not right:
        raise InputError(f"{place}: holds {str(data['payloadType'])[:80]!r}; a receipt is {PAYLOAD_TYPE!r}")
    statement = parse(payload, f"{place}, payload")
    try:
        if statement["_type"] != STATEMENT or statement["predicateType"] != PREDICATE:
            raise InputError(
                f"{place}: states {str(statement['predicateType'])[:80]!r}; a receipt states {PREDICATE!r}"
            )
        subjects = tuple((entry["name"], entry["digest"]["sha256"]) for entry in statement["subject"])
        return Signed(statement["predicate"], _message(payload), found, subjects)
    except (KeyError, TypeError) as error:
        raise InputError(f"{place}: not an in-toto statement: {type(error).__name__} {error}") from None


def _message(payload: bytes) -> bytes:
    """What is signed: DSSE's pre-authentication encoding, so that no bytes can be taken for others."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def generate(path: Path) -> Key:
    """A new key: the private half at this path, readable by its owner alone, the public half beside it as `.pub`."""
    serialization, ed25519 = _cryptography()
    private = ed25519.Ed25519PrivateKey.generate()
    if path.exists():
        raise UsageError(f"{path}: is there already; a key is not overwritten")
    public = path.with_name(path.name + ".pub")
    try:
        path.touch(mode=0o600)
        path.write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        public.write_bytes(
            private.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
    return Key(private.public_key(), private)


def load_key(path: Path, *, private: bool) -> Key:
    """A key from a PEM file; a private one serves as a public one too."""
    serialization, ed25519 = _cryptography()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    try:
        if b"PRIVATE KEY" in text:
            found = serialization.load_pem_private_key(text, password=None)
            public = found.public_key()
        else:
            found, public = None, serialization.load_pem_public_key(text)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: not a key in PEM: {error}") from None
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise InputError(f"{path}: not an ed25519 key")
    if private and found is None:
        raise UsageError(f"{path}: is a public key; to sign, the private one is needed")
    return Key(public, found)


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise UsageError("keys and signatures need cryptography: pip install 'backproof[sign]'") from None
    return serialization, ed25519
