"""Staged sums under CKKS with one flaw at a time in how keys pass between clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fgl_secure.crypto.ckks import ReceiverKey
from fgl_secure.protocols.staged.ciphertexts import client as ckks_client
from fgl_secure.protocols.staged.ciphertexts.plan import CkksPlan
from fgl_secure.protocols.staged.ciphertexts.secrets import BOX_BYTES, OwnSecrets, boxes_for, sealed_bytes
from fgl_secure.protocols.staged.ciphertexts.wire import padded

Patch = Callable[[pytest.MonkeyPatch], None]


def secrets_of(bits: int) -> Patch:
    """Group keys and private keys are drawn from 2^bits."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        honest = OwnSecrets.draw.__func__  # type: ignore[attr-defined]

        def few(secret: bytes) -> bytes:
            return int.to_bytes(int.from_bytes(secret, "little") % (1 << bits), len(secret), "little")

        def draw(cls: Any, coins: Any) -> Any:
            drawn = honest(cls, coins)
            return cls(few(drawn.sealing), few(drawn.group))

        monkeypatch.setattr(OwnSecrets, "draw", classmethod(draw))

    return patch


def boxes_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Group keys are not sealed."""

    def boxes(plan: CkksPlan, own: int, secrets: OwnSecrets, listed: Sequence[int], _: Sequence[bytes]) -> bytes:  # noqa: ARG001
        return secrets.group.ljust(BOX_BYTES, b"\0") * (len(listed) - 1)

    monkeypatch.setattr(ckks_client, "boxes_for", boxes)


def file_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Key files are not sealed."""

    def wrapped(plan: CkksPlan, maker: int, group: bytes, key: ReceiverKey) -> bytes:  # noqa: ARG001
        return padded(key.secret_file(), sealed_bytes(plan))

    monkeypatch.setattr(ckks_client, "wrapped", wrapped)


def boxes_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes are sealed under the keys of others than those they are for."""

    def boxes(plan: CkksPlan, own: int, secrets: OwnSecrets, listed: Sequence[int], publics: Sequence[bytes]) -> bytes:
        others = [v for v in listed if v != own]
        known = dict(zip(listed, publics, strict=True))
        turned = dict(zip(others, [*others[1:], others[0]], strict=True))
        return b"".join(boxes_for(plan, own, secrets, [turned[v]], [known[turned[v]]]) for v in others)

    monkeypatch.setattr(ckks_client, "boxes_for", boxes)
