"""HiFGL for node regression: every device has a real value, and silos fit the values by squared error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.nn import functional

from fgl_secure.algebra.checks import as_floats, check_finite
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.methods.hifgl.program import HiFGLSilo, silos_of
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job
from fgl_secure.training.loop import COUNTS, Counts, Scores
from fgl_secure.training.presets import Preset
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Floats

MOST_TARGET = 1000.0
"""Largest magnitude of a target: layers suit values of the order of 1."""
_UNIT = 2**20
"""Errors are summed as multiples of 1 / _UNIT."""
_TARGETS = "targets"
"""Name of the devices' values among what a silo holds."""


class NodeRegression(HiFGLSilo):
    """One silo's model of its devices' values in training.

    In all sums squared errors take the place of correct predictions, and absolute errors follow the counts.

    Args:
        talk: the collectives of the run; its silo holds the targets.
        preset: how to train.
        choices: as of `HiFGLSilo`.
    """

    count_scales: ClassVar[Array] = np.array([_UNIT, 1, _UNIT, 1, _UNIT, _UNIT])

    def __init__(self, talk: Collectives, preset: Preset, **choices: Any) -> None:
        super().__init__(talk, preset, **choices)
        self._scores = Scores(preset.selection, less=True)
        self._targets = self._to_device(talk.silo.own[_TARGETS])

    def task_losses(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the squared error of each device, [m]."""
        return functional.mse_loss(outputs[:, 0], self._targets, reduction="none")

    def predictions(self, outputs: torch.Tensor) -> Floats:
        """Return the value predicted for each device, float64 [m]."""
        values: Floats = outputs[:, 0].double().cpu().numpy()
        return values

    def marks(self, predicted: Array) -> Array:
        """Return what devices add to the counts, float64 [m, 6].

        The columns are squared errors and numbers of validation and of test devices, then their absolute errors.
        """
        errors = np.abs(predicted - self.silo.own[_TARGETS])
        masks = [mask.astype(np.float64) for mask in (self.silo.validation, self.silo.test)]
        squares = [side for mask in masks for side in (errors**2 * mask, mask)]
        return np.stack([*squares, *(errors * mask for mask in masks)], axis=1)

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, with errors in the units of the targets.

        "validation", "test" and "own test" are root mean squared errors, "test MAE" and "own test MAE" mean absolute
        errors; NaN without any device.
        """
        best, own = self._scores.best, self._scores.own
        return {
            **super().report,
            "validation": np.sqrt(_mean_error(best, 0, 1)),
            "test": np.sqrt(_mean_error(best, 2, 3)),
            "own test": np.sqrt(_mean_error(own, 2, 3)),
            "test MAE": _mean_error(best, COUNTS + 1, 3),
            "own test MAE": _mean_error(own, COUNTS + 1, 3),
        }


def _mean_error(counts: Counts, errors: int, number: int) -> Array:
    """Return the mean of the errors summed at one place over the number at another; NaN without any."""
    return np.asarray(counts[errors] / _UNIT / counts[number] if counts[number] else np.nan, dtype=np.float64)


def node_regression(
    graph: FederatedGraph,
    targets: ArrayLike,
    schemes: Scheme | Mapping[str, Scheme],
    preset: Preset,
    **choices: Any,
) -> Job:
    """Return the silos of HiFGL for node regression; the round with the least squared error is selected.

    Their result's `accuracy` holds root mean squared errors, its `report` mean absolute errors under "test MAE". Ranges
    of sums are found in each round, since errors have no bound.

    Args:
        graph: who has what; its labels are not used.
        targets: real numbers [n], finite, the value of each device. The widths of layers suit values of the order of 1.
        schemes: by topology, or one for neighbours' rows, as for `silos_of`.
        preset: how to train.
        choices: as for `silos_of`: backbone, seed, device and perturbation.

    Raises:
        InputError: targets are not one finite number per device.
    """
    values = as_floats(targets, "targets").astype(np.float32)
    if values.shape != (graph.num_devices,):
        raise InputError(f"targets must be {graph.num_devices} numbers, one per device; found shape {values.shape}")
    check_finite(values, "targets")
    if np.abs(values).max() > MOST_TARGET:
        raise InputError(
            f"targets must lie within {MOST_TARGET:g} in magnitude, so that squared errors fit sums; found "
            f"{np.abs(values).max():g}: standardise them"
        )
    if not graph.train_mask.any():
        raise InputError("masks.train must mark at least one device; found none")
    unlabelled = replace(graph.graph, labels=read_only(np.zeros(graph.num_devices, dtype=np.int64)))
    graph = replace(graph, graph=unlabelled)
    job = silos_of(graph, schemes, preset, kind=NodeRegression, **choices)
    shares = [_with_targets(share, values) for share in Silo.all_of(graph, job.heard)]
    return replace(job, shares=tuple(shares))


def _with_targets(share: Silo, values: Array) -> Silo:
    return replace(share, facts=replace(share.facts, large_features=True), own={_TARGETS: values[share.nodes]})
