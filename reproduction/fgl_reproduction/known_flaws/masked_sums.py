"""Sums under masks: adapters written from descriptions, with ideal keys and secure links between clients.

A link between two clients is a message to the second alone. The expansion of a key is drawn, and noted as known to all
holders of the key. If a protocol unmasks sums of masks, shares of masks are sums of uniform elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fgl_secure.algebra import PrimeField, lagrange_matrix
from fgl_secure.runtime import Channel, Directory, Phase, Role, Step
from fgl_secure.testing.protocol import Inputs
from fgl_secure.typing import Integers


def parties(clients: int) -> Directory:
    """Return a server and silos that are its clients."""
    return Directory({Role.SERVER: 1, Role.SILO: clients})


def to_server(channel: Channel, phase: Phase, step: Step, values: Integers) -> None:
    """Send a message of each client to the server: values [*tapes, clients, ...]."""
    clients = channel.parties.ids(Role.SILO)
    channel.send(phase, step, clients, np.zeros_like(clients), values)


def between(channel: Channel, phase: Phase, step: Step, values: Integers) -> None:
    """Send a message of each client to each over secure links: values [*tapes, from, to, ...]."""
    clients, axes = channel.parties.ids(Role.SILO), len(channel.batch_shape)
    n = len(clients)
    flat = values.reshape((*values.shape[:axes], n * n, *values.shape[axes + 2 :]))
    channel.send(phase, step, np.repeat(clients, n), np.tile(clients, n), flat)


def unmask_sum(channel: Channel, step: Step, values: Integers, p: int) -> Integers:
    """Reveal the sum of the clients' values to the server alone: [*tapes, d] from [*tapes, n, d].

    Each client splits its values into uniform summands, one per client, and sends the server the sum of those received.
    """
    clients, axes = channel.parties.ids(Role.SILO), len(channel.batch_shape)
    n, d = len(clients), values.shape[-1]
    shares = channel.draw("summands", clients, p, (n, d), step)
    shares[..., 0, :] = (values - shares[..., 1:, :].sum(axis=-2)) % p
    between(channel, Phase.SECRET_SHARES, step, shares)
    sums = shares.sum(axis=axes) % p
    to_server(channel, Phase.UNMASKING, step, sums)
    return np.asarray(sums.sum(axis=-2) % p)


def pair_masks(channel: Channel, p: int) -> Integers:
    """Return the mask of each pair of clients: int64 [*tapes, n, n], with 0 on the diagonal and opposite signs."""
    clients = channel.parties.ids(Role.SILO)
    n = len(clients)
    masks = np.zeros((*channel.batch_shape, n, n), dtype=np.int64)
    for first in range(n - 1):
        drawn = channel.draw("pair masks", clients[[first]], p, (n - first - 1,))[..., 0, :]
        channel.note_secrets("pair masks", clients[first + 1 :], drawn)
        masks[..., first, first + 1 :] = drawn
        masks[..., first + 1 :, first] = -drawn % p
    return masks


def double_masking(
    inputs: Inputs,
    channel: Channel,
    *,
    p: int,
    threshold: int,
    announced: Mapping[int, tuple[int, ...]],
    compared: bool,
) -> None:
    """Run Bonawitz et al. 2017 for honest servers, under a server that announces a participant set per client.

    Args:
        inputs: a number per client, [clients, 1].
        channel: between all parties.
        p: a prime.
        threshold: shares that reveal a secret.
        announced: by client, the clients that have sent a vector according to the server.
        compared: whether clients respond only if all participant sets are equal: the consistency check.
    """
    clients, step = channel.parties.ids(Role.SILO), Step(0)
    n = len(clients)
    own, pairs = channel.draw("own masks", clients, p, (1,)), pair_masks(channel, p)
    to_server(channel, Phase.MASKED_VECTORS, step, (inputs + own + pairs.sum(axis=-1)[..., None]) % p)
    secrets = np.concatenate([own, pairs], axis=-1)  # [*tapes, n, 1 + n]: the seed of u's own mask, and its key
    coefficients = channel.draw("sharing", clients, p, (threshold - 1, 1 + n))
    points = np.arange(1, n + 1)[:, None] ** np.arange(1, threshold)
    shares = (secrets[..., None, :] + np.einsum("vk,...ukd->...uvd", points, coefficients)) % p
    between(channel, Phase.SECRET_SHARES, step, shares)
    participants = np.array([[u in announced[v] for u in range(n)] for v in range(n)], dtype=np.int64)
    channel.send(Phase.ROSTERS, step, np.zeros_like(clients), clients, _on_tapes(channel, participants))
    if compared and (participants != participants[0]).any():
        participants = np.repeat(participants[:1], n, axis=0)  # clients respond only to equal participant sets
        channel.send(Phase.ROSTERS, step, np.zeros_like(clients), clients, _on_tapes(channel, participants))
    responses = np.moveaxis(shares, -3, -2).copy()  # [*tapes, to v, of u, 1 + n]
    responses[..., 0] *= participants  # of a participant: a share of its own mask
    responses[..., 1:] *= 1 - participants[..., None]  # of a dropped client: a share of its key, and never both
    to_server(channel, Phase.UNMASKING, step, responses)


def seeded_masks(inputs: Inputs, channel: Channel, *, modulus: int, folded: bool) -> None:
    """Run SecAgg+ between two clients, whose masks are expanded from seeds of two words, folded to one by XOR or not.

    A folded mask is the output of numpy's Mersenne Twister for a seed of one word. Two words have a seed for every
    mask. The server receives the seeds of self-masks, as from clients that do not drop out.

    Args:
        inputs: [clients, 2].
        channel: between all parties.
        modulus: of entries and words, a power of two.
        folded: whether seeds are folded.
    """
    clients, step = channel.parties.ids(Role.SILO), Step(0)
    expand = _mersenne(modulus) if folded else _identity
    pair, own = channel.draw("pair seeds", clients[:1], modulus, (2,)), channel.draw("seeds", clients, modulus, (2,))
    channel.note_secrets("pair seeds", clients[1:], pair)
    mask = expand(pair)
    masks = np.concatenate([mask, -mask], axis=-2)
    to_server(channel, Phase.MASKED_VECTORS, step, (inputs + masks + expand(own)) % modulus)
    to_server(channel, Phase.UNMASKING, step, own)


def _mersenne(modulus: int) -> Any:
    table = np.array([np.random.RandomState(seed).randint(0, modulus, 2) for seed in range(modulus)])
    return lambda words: table[words[..., 0] ^ words[..., 1]]


def _identity(words: Integers) -> Integers:
    return words


def one_key(inputs: Inputs, channel: Channel, *, p: int, server_has_it: bool) -> None:
    """Run sums of ciphertexts under one key: each is a value under a pad known to holders of the key.

    Args:
        inputs: a number per client, [clients, 1].
        channel: between all parties.
        p: a prime.
        server_has_it: whether the key comes with the software, and the server loads it too.
    """
    clients, step = channel.parties.ids(Role.SILO), Step(0)
    pads = channel.draw("pads", clients, p, (1,))
    holders = np.concatenate([np.zeros(int(server_has_it), dtype=np.int64), clients])
    known = np.repeat(pads[..., None, :, 0], len(holders), axis=-2)
    channel.note_secrets("pads", holders, known)
    ciphertexts = (inputs + pads) % p
    to_server(channel, Phase.CIPHERTEXTS, step, ciphertexts)
    total = np.repeat(ciphertexts.sum(axis=-2, keepdims=True) % p, len(clients), axis=-2)
    channel.send(Phase.CIPHERTEXT_SUMS, step, np.zeros_like(clients), clients, total)


def masks_set_up_once(inputs: Inputs, channel: Channel, *, p: int, fresh: bool) -> None:
    """Run MicroSecAgg over several rounds, in the exponent: a masked number per client; sums of masks are revealed.

    Args:
        inputs: a number per client and round, [clients, rounds].
        channel: between all parties.
        p: order of the group.
        fresh: whether masks are drawn in every round instead of once.
    """
    clients = channel.parties.ids(Role.SILO)
    masks = channel.draw("masks", clients, p, (1,))
    for number in range(inputs.shape[1]):
        step = Step(number)
        if fresh and number:
            masks = channel.draw("masks", clients, p, (1,), step)
        to_server(channel, Phase.MASKED_VECTORS, step, (inputs[:, number : number + 1] + masks) % p)
        unmask_sum(channel, step, masks, p)


def sum_of_sparse(inputs: Inputs, channel: Channel, *, p: int, least: int) -> None:
    """Run secure aggregation of sparse vectors, of which entries with enough contributors are unmasked.

    Args:
        inputs: [clients, entries].
        channel: between all parties.
        p: a prime.
        least: nonzero contributors that an entry needs to be unmasked; 0 unmasks all entries.
    """
    clients, (counting, adding) = channel.parties.ids(Role.SILO), (Step(0), Step(1))
    entries = inputs.shape[1]
    counts = (inputs != 0).astype(np.int64)
    for step, values, unmasked in ((counting, counts, counts.sum(axis=0) >= 0),
                                 (adding, inputs, counts.sum(axis=0) >= least)):  # fmt: skip
        masks = channel.draw("masks", clients, p, (entries,), step)
        to_server(channel, Phase.MASKED_VECTORS, step, (values + masks) % p)
        unmask_sum(channel, step, masks[..., unmasked], p)


def coded_masks(
    inputs: Inputs, channel: Channel, *, p: int, threshold: int, colluding: int, noisy: bool, sealed: bool
) -> None:
    """Run the algebra of LightSecAgg: masks are coded with noise, and the server decodes their sum from code sums.

    Args:
        inputs: [clients, parts], with threshold - colluding parts.
        channel: between all parties.
        p: a prime.
        threshold: U, responses that decode.
        colluding: T, clients whose codes together must reveal nothing.
        noisy: whether the T blocks of noise are drawn instead of zero.
        sealed: whether codes reach the clients over secure links instead of via the server in plaintext.
    """
    clients, step, field = channel.parties.ids(Role.SILO), Step(0), PrimeField(p)
    n, parts = len(clients), threshold - colluding
    masks = channel.draw("masks", clients, p, (parts,))
    to_server(channel, Phase.MASKED_VECTORS, step, (inputs + masks) % p)
    noise = channel.draw("noise", clients, p, (colluding,)) * int(noisy)
    points = range(1, threshold + 1), range(threshold + 1, threshold + 1 + n)
    code = lagrange_matrix(field, *map(tuple, points))
    codes = np.concatenate([masks, noise], axis=-1) @ code.T % p  # [*tapes, of u, for v]
    if not sealed:
        to_server(channel, Phase.SECRET_SHARES, step, codes)
    between(channel, Phase.SECRET_SHARES, step, codes[..., None])
    to_server(channel, Phase.UNMASKING, step, codes.sum(axis=-2)[..., None] % p)


def shamir_sum(inputs: Inputs, channel: Channel, *, p: int, degree: int) -> None:
    """Share a number per client among servers, and send the sums of shares to a receiver.

    Args:
        inputs: a number per client, [clients, 1].
        channel: between all parties.
        p: a prime above the number of servers.
        degree: of polynomials, the number of servers that may collude.
    """
    clients, servers = channel.parties.ids(Role.SILO), channel.parties.ids(Role.SERVER)
    step, receiver = Step(0), channel.parties.ids(Role.DEVICE)
    coefficients = channel.draw("sharing", clients, p, (degree,))
    powers = np.arange(1, len(servers) + 1)[:, None] ** np.arange(1, degree + 1)
    shares = (inputs + coefficients @ powers.T) % p  # [*tapes, clients, servers]
    for index, server in enumerate(servers):
        ends = clients, np.full(len(clients), server)
        channel.send(Phase.SECRET_SHARES, step, *ends, shares[..., index : index + 1])
    sums = shares.sum(axis=-2)[..., None] % p
    channel.send(Phase.SHARE_SUMS, step, servers, np.repeat(receiver, len(servers)), sums)


def _on_tapes(channel: Channel, values: Integers) -> Integers:
    return np.broadcast_to(values, (*channel.batch_shape, *values.shape)).copy()
