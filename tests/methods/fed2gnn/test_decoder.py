"""The decoder keeps sums, learns what sets look like, and never looks at what it was not given."""

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.errors import InputError
from fgl_secure.methods.fed2gnn.decoder import Decoder, Neighbourhoods
from fgl_secure.methods.fed2gnn.preset import DecoderPreset
from tests.error_codes import about

MOST = 4
PRESET = DecoderPreset(epochs=60, width=32, blocks=2, batch=64, separator_rate=1e-2)


def sets(number: int, seed: int, width: int = 6, *, related: bool = True) -> Neighbourhoods:
    """Sets whose elements lie on both sides of their mean, along a direction that the mean tells, unless unrelated.

    A node has as many other neighbours as the first entry of its sum says.
    """
    rng = np.random.default_rng(seed)
    size = rng.integers(1, MOST + 1, number)
    kind = rng.integers(0, 2, number)
    directions = np.random.default_rng(0).normal(size=(2, 2 * width))
    along = np.concatenate([np.linspace(-1, 1, each) if each > 1 else np.zeros(1) for each in size])
    of_set = np.repeat(np.arange(number), size)
    sign = kind if related else rng.integers(0, 2, number)
    centre = 3 * np.eye(2, 2 * width)[kind]
    elements = (
        centre[of_set] + along[:, None] * directions[sign[of_set]] + 0.05 * rng.normal(size=(len(of_set), 2 * width))
    )
    others = rng.integers(0, 6, len(of_set))
    elements[:, width] = np.log1p(others)
    order = rng.permutation(len(of_set))
    order = order[np.argsort(of_set[order], kind="stable")]
    return Neighbourhoods(elements.reshape(-1, 2, width)[order], others[order], np.cumsum(size) - size, size)


def variance_within(data: Neighbourhoods, decoder: Decoder) -> float:
    """The loss of taking every element to be the mean of its set, in the decoder's units."""
    apart = data.deviations() / decoder._space.unit.numpy()
    several = np.repeat(data.size > 1, data.size)
    return float((apart[several] ** 2).sum() / several.sum())


@pytest.fixture(scope="module")
def trained() -> Decoder:
    return Decoder(sets(300, 1), MOST, PRESET, seed=0)


def test_elements_sum_to_what_was_given(trained: Decoder) -> None:
    """The constraint of Eq. 5, for sums that look like nothing it was trained on."""
    rng = np.random.default_rng(0)
    sums, counts = 100 * rng.normal(size=(50, 2, 6)), rng.integers(1, MOST + 1, 50)
    found = trained.decode(sums, counts)
    assert found.shape == (counts.sum(), 2, 6)
    np.testing.assert_allclose(np.add.reduceat(found, np.cumsum(counts) - counts, axis=0), sums, atol=1e-9)
    assert np.abs(found[np.repeat(counts, counts) == 1] - sums[counts == 1]).max() == 0


def test_held_out_sets_are_decoded_better_than_by_their_means(trained: Decoder) -> None:
    """What it learnt holds for sets that it has not seen; before training it is no better than the mean."""
    held_out = sets(100, 2)
    untrained = Decoder(sets(300, 1), MOST, replace(PRESET, epochs=0), seed=0)
    assert trained.loss(held_out) < 0.3 * variance_within(held_out, trained)
    assert untrained.loss(held_out) > 0.7 * variance_within(held_out, untrained)


def test_nothing_is_learnt_where_the_sum_tells_nothing() -> None:
    """With directions drawn anew, the loss on held-out sets stays near that of the mean: the null control."""
    decoder = Decoder(sets(300, 1, related=False), MOST, PRESET, seed=0)
    held_out = sets(100, 2, related=False)
    assert decoder.loss(held_out) > 0.6 * variance_within(held_out, decoder)


def test_degrees_are_predicted(trained: Decoder) -> None:
    """phi_d finds the number of other neighbours of held-out nodes better than their mean does."""
    held_out = sets(100, 3)
    found = trained.degrees(held_out.elements)
    error = np.abs(found - held_out.others).mean()
    assert error < 0.5 * np.abs(held_out.others - held_out.others.mean()).mean()
    assert (found >= 0).all()


def test_a_seed_repeats_a_decoder() -> None:
    """Equal seeds give equal bits, other seeds do not."""
    data, short = sets(60, 1), replace(PRESET, epochs=2)
    sums, counts = data.sums(), data.size
    one, same, other = (Decoder(data, MOST, short, seed).decode(sums, counts) for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_a_client_without_sets_has_a_decoder_all_the_same() -> None:
    """Untrained, it still keeps sums."""
    nothing = Neighbourhoods(np.empty((0, 2, 6)), *(np.empty(0, dtype=np.int64) for _ in range(3)))
    decoder = Decoder(nothing, MOST, PRESET, seed=0)
    found = decoder.decode(np.ones((1, 2, 6)), np.array([2]))
    np.testing.assert_allclose(found.sum(axis=0), np.ones((2, 6)))
    assert decoder.losses == []
    assert decoder.loss(nothing) == 0


def test_choices_out_of_range_are_refused(trained: Decoder) -> None:
    """d = 0, sets larger than d, and sets without sums."""
    with pytest.raises(InputError, check=about("most")):
        Decoder(sets(5, 1), 0, PRESET, seed=0)
    with pytest.raises(InputError, check=about("counts")):
        trained.decode(np.zeros((1, 2, 6)), np.array([5]))
    alone = sets(5, 1)
    with pytest.raises(InputError, check=about("elements")):
        Decoder(replace(alone, elements=alone.elements[:, :1]), MOST, PRESET, seed=0)
