"""The gradients that a server sees, with what it knows of the small graphs behind them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fgl_secure.attacks.gradients.knowledge import GradientKnowledge
from fgl_secure.attacks.gradients.labels import counted, mean_predictions
from fgl_secure.attacks.gradients.matching.reconstruction import Floats, Ids, SeenGradient
from fgl_secure.attacks.gradients.receptive_field import side_by_side
from fgl_secure.attacks.gradients.views import SUM, ClientGradients, client_gradients
from fgl_secure.runtime import PublicParameters, View

MOST_ENTRIES = 2**15
"""Unknown entries of rows up to which a gradient is attacked: 512 pictures of 64 pixels, or 22 rows of 1,433 words."""


@dataclass(frozen=True, slots=True, eq=False)
class Exhibit:
    """A gradient to be inverted, and whose it is.

    Attributes:
        seen: the gradient.
        clients: int64 [k], the silos that it is the mean of; one, unless only a sum was seen.
        place: int64 [m], which row of the field each row of the clients' own fields, one after the other, has become.
    """

    seen: SeenGradient
    clients: Ids
    place: Ids


def exhibits(view: View, public: PublicParameters, known: GradientKnowledge) -> tuple[Exhibit, ...]:
    """Every gradient of the round that the observer knows the model of, and whose field it knows the shape of.

    A sum over clients is the mean over all of their nodes times the number of clients. It is attacked as one batch on
    all fields side by side; a clipping norm of single clients says nothing about it.
    """
    gradients = client_gradients(view, public, known)
    if gradients is None or known.fields is None:
        return ()
    return tuple(
        exhibit
        for exhibit in _exhibits(gradients, known)
        if exhibit.seen.field.nodes * gradients.model.widths[0] <= MOST_ENTRIES
    )


def _exhibits(gradients: ClientGradients, known: GradientKnowledge) -> Iterator[Exhibit]:
    fields = known.fields or {}
    expected = mean_predictions(gradients.model, None)
    for row, client in enumerate(gradients.clients):
        members = gradients.participants if client == SUM else np.array([client], dtype=np.int64)
        if all(int(member) in fields for member in members):
            yield _exhibit(gradients, row, members, known, expected)


def _exhibit(gradients: ClientGradients, row: int, members: Ids, known: GradientKnowledge, expected: Floats) -> Exhibit:
    fields = known.fields or {}
    field, place = side_by_side([fields[int(member)] for member in members])
    model = gradients.model
    flat = np.concatenate([gradients.parts[name][row].ravel() for name in model.layout.names]) / len(members)
    bias = gradients.parts[model.last_bias][row] / len(members)
    labels = np.repeat(np.arange(model.widths[-1]), counted(bias, expected, field.batch))
    clip = known.clip if len(members) == 1 else None
    return Exhibit(SeenGradient(model, flat, field, labels, known.image_shape, clip), members, place)
