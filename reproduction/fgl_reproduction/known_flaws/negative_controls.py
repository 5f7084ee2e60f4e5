"""Negative controls of any protocol: an input in plaintext in every message, or one more message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.runtime import Channel, MessageBatch, Phase, Step
from fgl_secure.testing.protocol import Inputs, Protocol


def reveal_input(protocol: Protocol, entry: int) -> Protocol:
    """Return the protocol with one entry of the inputs in place of all integers in all messages, of equal length.

    Args:
        protocol: the protocol to break.
        entry: position of the entry in the flat inputs.
    """

    def run(inputs: Inputs, channel: Channel) -> None:
        protocol.run(inputs, channel)
        value = int(inputs.reshape(-1)[entry]) % protocol.modulus
        batches = channel.transcript.messages
        batches[:] = [_fill_batch(batch, value) for batch in batches]

    return replace(protocol, run=run, name=f"{protocol} with an input in plaintext")


def add_message(protocol: Protocol, entry: int, quiet: int) -> Protocol:
    """Return the protocol with one more message unless an entry of the inputs has the value `quiet`."""

    def run(inputs: Inputs, channel: Channel) -> None:
        protocol.run(inputs, channel)
        if int(inputs.reshape(-1)[entry]) != quiet:
            ends = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
            channel.send(Phase.VALUES, Step(0), *ends, np.zeros((*channel.batch_shape, 1), dtype=np.int64))

    return replace(protocol, run=run, name=f"{protocol} with a message that depends on an input")


def _fill_batch(batch: MessageBatch, value: int) -> MessageBatch:
    if batch.fields is None or batch.phase is Phase.SEALED:
        return batch
    return replace(batch, fields={name: _filled_like(field, value) for name, field in batch.fields.items()})


def _filled_like(field: NDArray[Any], value: int) -> NDArray[Any]:
    if field.dtype.kind not in "iu":
        return field
    return np.full_like(field, value & int(np.iinfo(field.dtype).max))
