"""Digests of every scheme's messages, by topology and phase, in a run of two rounds under simulated coins.

A change that must not alter a protocol leaves the digests as they are. `python -m tests.golden.transcripts` writes
`tests/golden/transcripts.json` anew.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fgl_secure import schemes
from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, SERVER, Grouping, Topology
from fgl_secure.runtime import Channel, Direction, Directory, Recording, Role, Step
from fgl_secure.runtime.transcript import MessageBatch

FILE = Path(__file__).with_name("transcripts.json")
SILOS, DEVICES, WIDTH, BOUND = 4, 12, 3, 4
VARIANTS = (
    f"{NEIGHBOURS}=relay-coded[graph-shown]",
    f"{SERVER}=pairwise-masking[precision=16]",
    f"{SERVER}=lightsecagg[precision=16]",
)
"""Beside each scheme as its name alone gives it."""
FROM_SEAL = frozenset({"ckks", "ckks-shared-key"})
"""Schemes whose ciphertexts have coins of their own library: digests are of sizes alone."""


def cases() -> dict[str, tuple[str, Scheme]]:
    """Return topology and scheme of each recorded run, by the run's name."""
    texts = [f"{topology}={name}" for topology in schemes.TOPOLOGIES for name in schemes.names(topology)]
    return {text: _reproducible(*schemes.parse(text)) for text in (*texts, *VARIANTS)}


def _reproducible(topology: str, scheme: Scheme) -> tuple[str, Scheme]:
    """Return the scheme with X25519 alone: ML-KEM encapsulates under coins of its own library."""
    return topology, replace(scheme, keys=KeyAgreement.X25519) if hasattr(scheme, "keys") else scheme  # type: ignore[type-var]


def digests(name: str) -> dict[str, str]:
    """Return the SHA-256 digest, 16 hexadecimal digits, of all messages of each phase of one run."""
    topology, scheme = cases()[name]
    parties = Directory.hierarchy(SILOS, DEVICES, scheme.helpers.get(Role.RELAY, 0))
    channel = Channel(parties, SimulationCoins(1), Recording.everything())
    collective = Collective(scheme, _topology(topology, parties), channel)
    for step in _steps(topology):
        collective.sum(_rows(topology, step), step)
    hashes: dict[str, Any] = {}
    for batch in channel.transcript.messages:
        digest = hashes.setdefault(batch.phase.label, hashlib.sha256())
        for part in _parts(batch, contents=scheme.label not in FROM_SEAL):
            digest.update(part)
    return {phase: digest.hexdigest()[:16] for phase, digest in sorted(hashes.items())}


def _topology(name: str, parties: Directory) -> Topology:
    """Return a ring of devices with chords, the devices of each silo, or a vector per silo."""
    devices, silos = parties.ids(Role.DEVICE), parties.ids(Role.SILO)
    silo_of = silos[np.arange(DEVICES) % SILOS]
    rows = np.arange(DEVICES)
    if name == NEIGHBOURS:
        source, target = np.repeat(rows, 4), (np.repeat(rows, 4) + np.tile([1, 3, -3, -1], DEVICES)) % DEVICES
        grouping = Grouping(devices, devices, source, target, silo_of, silo_of)
        return Topology(name, grouping, WIDTH)
    if name == MEMBERS:
        return Topology(name, Grouping(devices, silos, rows, rows % SILOS, silo_of, silos), WIDTH)
    if name == CLIENTS:
        return Topology.to_client(parties, silos[:-1], int(silos[-1]), WIDTH, BOUND)
    return Topology.to_server(parties, WIDTH, BOUND)


def _steps(topology: str) -> list[Step]:
    forward = [Step(0), Step(1)]
    return [*forward, Step(1, direction=Direction.BACKWARD)] if topology == NEIGHBOURS else forward


def _rows(topology: str, step: Step) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(step.round).integers(0, BOUND, (DEVICES, WIDTH))
    if topology in (NEIGHBOURS, MEMBERS):
        return values / 2.0
    return values[: SILOS - 1 if topology == CLIENTS else SILOS]


def _parts(batch: MessageBatch, *, contents: bool) -> Iterator[bytes]:
    """Yield step, ends, and size or contents of a batch of messages as bytes."""
    yield repr((batch.step, batch.item_bytes)).encode()
    yield np.stack([batch.senders, batch.receivers]).astype("<i8").tobytes()
    for name, field in sorted((batch.fields or {}).items()) if contents else ():
        array = np.asarray(field)
        yield f"{name} {array.dtype.str} {array.shape}".encode()
        yield np.ascontiguousarray(array).tobytes()


def main() -> None:
    """Write the file."""
    found = {name: digests(name) for name in cases()}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
