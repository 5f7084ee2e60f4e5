"""Attacks on arrays of your own: no run of this package, no recorded view.

An audit runs the same attacks on recorded views, by name. If the truth is given, the result has a score with its 95 %
interval and, as baseline, the score of the best guess without the observed data.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.nn import functional

from fgl_secure.algebra.checks import as_floats, check_finite
from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.gradients.inversion import (
    VARIATION,
    Effort,
    deep_leakage,
    improved_deep_leakage,
    inverting_gradients,
    total_variation,
)
from fgl_secure.attacks.gradients.matching import is_recovered, match_rows
from fgl_secure.attacks.gradients.model import gradient_parts
from fgl_secure.attacks.gradients.reconstruction import reconstruct_graph as reconstruct_graph
from fgl_secure.attacks.gradients.single import count_labels
from fgl_secure.attacks.message_passing import fingerprint
from fgl_secure.attacks.recovery import Result, largest_share, share_right
from fgl_secure.attacks.row_space import solver
from fgl_secure.attacks.structure.hops import neighbour_lists
from fgl_secure.attacks.structure.nsf_identity import by_degree, comparable, nearest, one_to_one
from fgl_secure.errors import InputError
from fgl_secure.typing import Floats, Ids

CLOSE = 1e-6
"""How far an entry may be from the true one, as a share of the largest true one, and count as recovered."""
_TINY = 1e-100
"""Squares of smaller numbers would be zero."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Matches(Result):
    """The table row that each node was matched with.

    Attributes:
        rows: int64 [m], rows of the table; -1 for none.
    """

    rows: Ids


def match(
    features: ArrayLike, table: ArrayLike, *, method: str = "nearest", truth: ArrayLike | None = None, seed: int = 0
) -> Matches:
    """Re-identify nodes: match their structure features with the rows of a table.

    The table has the same features of nodes whose identity the attacker knows, computed on a copy of the graph (on
    FedStruct, ICLR 2025, App. G.1). Counts are compared as log2(1 + count).

    Args:
        features: [m, d], finite.
        table: [k, d], finite, k at least 1.
        method: `nearest`; `assignment`, which uses each row of the table once (the Hungarian method); or `degrees`, the
            nearest among those of equal degree and degrees of neighbours, for features that tell them.
        truth: int [m], the row of the table that each node is.
        seed: breaks ties between equal rows.

    Returns:
        The rows. With a truth also the share of correct matches; the baseline matches all nodes with one row.

    Raises:
        InputError: shapes do not fit, an entry is not finite, a method is unknown, or the features tell no degrees.

    Examples:
        >>> match([[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.9], [0.9, 0.0]], truth=[1, 0])
        Matches(score=1.000 in 0.158..1.000, baseline=0.500)
    """
    features_matrix, table_matrix = _matrix(features, "features"), _matrix(table, "table", columns_of=features)
    if not len(table_matrix):
        raise InputError("table must have at least 1 row; found 0")
    both, rng = comparable(np.concatenate([features_matrix, table_matrix])), np.random.default_rng(_whole(seed, "seed"))
    if method != "degrees":  # degrees are recovered from the features' own values
        # Features around their median: a common offset would exceed the differences between rows in squared distances.
        centred = both - np.median(both, axis=0)
        largest = float(np.abs(centred).max(initial=0.0))
        both = centred / largest if 0 < largest < _TINY else centred
    own_rows, other_rows = both[: len(features_matrix)], both[len(features_matrix) :]
    if method == "nearest":
        rows = nearest(own_rows, other_rows, 1, rng, rounding=0.0)[:, 0]
    elif method == "assignment":
        rows = one_to_one(own_rows, other_rows, rng, rounding=0.0)
    elif method == "degrees":
        result = by_degree(own_rows, other_rows, rng)
        if result is None:
            raise InputError('features must tell degrees for method="degrees"; they do not: take "nearest"')
        rows = result[:, 0]
    else:
        raise InputError(f'method must be "nearest", "assignment" or "degrees"; found {method!r}')
    if truth is None:
        return Matches(None, rows)
    actual = _indices(truth, len(features_matrix), len(table_matrix), "truth")
    prior = max(largest_share(actual[:, None]), 1 / len(table_matrix))
    finding = "nodes are matched with their own row."
    return Matches(
        share_right("matched", rows == actual, None, finding, random=1 / len(table_matrix), prior=prior), rows
    )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Edges(Result):
    """Recovered neighbour lists.

    Attributes:
        nodes: int64 [k], nodes whose list was recovered, as columns of the edges that were given, ascending.
        neighbours: bool [k, n], their neighbours, themselves among them where the adjacency has loops.
    """

    nodes: Ids
    neighbours: NDArray[np.bool_]


def edges_from_product(
    edges: ArrayLike, product: ArrayLike, *, truth: ArrayLike | None = None, own: ArrayLike | None = None
) -> Edges:
    """Recover neighbour lists from one of FedStruct's matrices B_ijk and its first factor, which the receiver knows.

    Client k sends client i the product of i's edges into k with k's own rows of the normalised adjacency
    D^-1 (A + I) (FedStruct, ICLR 2025, App. D, Eq. 34 to 36). Every row of the second factor that these equations
    determine is a list of neighbours. Matrices may be sparse.

    Args:
        edges: [r, m], the edges of r own nodes to m nodes of the sender.
        product: [r, n], what was received: edges times the sender's rows [m, n].
        truth: bool [m, n], the neighbours of the sender's nodes.
        own: int [m], the column of each of these nodes itself. Self-loops are no secret and are not scored. Needed with
            a truth unless m = n, where it is 0..m-1.

    Returns:
        The lists. With a truth also the share of correct edges among all that are true or claimed; the baseline claims
        every pair, and is the density.

    Raises:
        InputError: shapes do not fit, or an entry is not finite.

    Examples:
        >>> edges_from_product([[1.0, 0.0], [1.0, 1.0]], [[0.5, 0.5, 0.0], [0.5, 1.0, 0.5]]).neighbours
        array([[ True,  True, False],
               [False,  True,  True]])
    """
    known_matrix, product_matrix = _matrix(edges, "edges"), _matrix(product, "product")
    if len(known_matrix) != len(product_matrix):
        raise InputError(
            f"product must have one row for each of {len(known_matrix)} rows of edges; found {len(product_matrix)}"
        )
    solution = solver(known_matrix)
    rows, columns = neighbour_lists(solution.weights @ product_matrix)
    lists = np.zeros((known_matrix.shape[1], product_matrix.shape[1]), dtype=np.bool_)
    lists[solution.unknowns[rows], columns] = True
    nodes = np.flatnonzero(lists.any(axis=1)).astype(np.int64)
    if truth is None:
        return Edges(None, nodes, lists[nodes])
    actual = _matrix(truth, "truth") != 0
    if actual.shape != lists.shape:
        raise InputError(f"truth must have shape {list(lists.shape)}; found {list(actual.shape)}")
    if own is None and lists.shape[0] != lists.shape[1]:
        raise InputError(f"own must be given to score {lists.shape[0]} nodes in {lists.shape[1]} columns; found None")
    secret = np.ones_like(lists)
    loops = np.arange(len(lists)) if own is None else _indices(own, len(lists), lists.shape[1], "own")
    secret[np.arange(len(lists)), loops] = False
    either = np.flatnonzero(((lists | actual) & secret).ravel())
    right, owner = (lists & actual).ravel()[either], either // lists.shape[1]
    if not len(either):
        raise InputError("truth must have an edge, or one must be claimed; there is none to score")
    density = float(actual[secret].mean())
    finding = "edges are recovered, among those that are true or claimed."
    return Edges(share_right("edges", right, owner, finding, random=density, prior=density), nodes, lists[nodes])


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ContainedPairs(Result):
    """Pairs of a sum and a dictionary row that it contains.

    Attributes:
        sums: int64 [c], index of the sum.
        rows: int64 [c], index of the row.
    """

    sums: Ids
    rows: Ids


def find_contained(sums: ArrayLike, dictionary: ArrayLike, *, truth: ArrayLike | None = None) -> ContainedPairs:
    """Find the terms of sums in a public dictionary of sparse, non-negative rows: the sum has all of their columns.

    Every exact sum reveals this to its receiver, under any scheme and any weights.

    Args:
        sums: [k, d].
        dictionary: [n, d]; rows without a column that is not zero are found in no sum.
        truth: bool [k, n], which rows are in which sums.

    Returns:
        The pairs. With a truth also the share of correct pairs among all that are true or claimed; the baseline claims
        every pair, and is the share of pairs that are true.

    Raises:
        InputError: shapes do not fit, or an entry is not finite or negative.

    Examples:
        >>> find_contained([[2, 0, 1]], [[1, 0, 0], [0, 1, 0], [1, 0, 1]]).rows
        array([0, 2])
    """
    totals, listed = _matrix(sums, "sums"), _matrix(dictionary, "dictionary", columns_of=sums)
    for name, values in (("sums", totals), ("dictionary", listed)):
        if (values < 0).any():
            raise InputError(f"{name} must not be negative; at least one entry is")
    where, subsets = fingerprint.find_contained(totals, listed)
    if truth is None:
        return ContainedPairs(None, where, subsets)
    actual = _matrix(truth, "truth") != 0
    if actual.shape != (len(totals), len(listed)):
        raise InputError(f"truth must have shape [{len(totals)}, {len(listed)}]; found {list(actual.shape)}")
    claimed = np.zeros_like(actual)
    claimed[where, subsets] = True
    either = np.flatnonzero((claimed | actual).ravel())
    if not len(either):
        raise InputError("truth must have a row in a sum, or one must be found; there is none to score")
    density, right = float(actual.mean()), (claimed & actual).ravel()[either]
    finding = "rows are found in their sums, among pairs that are true or claimed."
    measured = share_right("rows found", right, either // len(listed), finding, random=density, prior=density)
    return ContainedPairs(measured, where, subsets)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Terms(Result):
    """Rows that the sums determine.

    Attributes:
        senders: int64 [k], index of each row's sender, ascending.
        rows: float64 [k, d].
    """

    senders: Ids
    rows: Floats


def differences(sums: ArrayLike, taking_part: ArrayLike, *, truth: ArrayLike | None = None) -> Terms:
    """Recover single rows from several sums over different sets of senders.

    The sums determine a row exactly if its leverage is 1 (Chin and Ozsoyoglu, IEEE TSE 8, 1982).

    Args:
        sums: [q, d], real numbers; of a field the representatives of least magnitude.
        taking_part: [q, n], how often each sender's row is in each sum.
        truth: [n, d], the rows.

    Returns:
        The rows. With a truth also the share of senders whose row is recovered, up to 1e-6 of the largest entry. The
        baseline guesses the most frequent row, and is 0 if no two are equal.

    Raises:
        InputError: shapes do not fit, or an entry is not finite.

    Examples:
        >>> differences([[5.0], [2.0]], [[1, 1], [0, 1]]).rows.round(6)
        array([[3.],
               [2.]])
    """
    totals, present = _matrix(sums, "sums"), _matrix(taking_part, "taking_part")
    if len(totals) != len(present):
        raise InputError(f"taking_part must have one row for each of {len(totals)} sums; found {len(present)}")
    solution = solver(present)
    rows = solution.weights @ totals
    if truth is None:
        return Terms(None, solution.unknowns, rows)
    actual = _matrix(truth, "truth", columns_of=sums)
    if len(actual) != present.shape[1]:
        raise InputError(f"truth must have one row for each of {present.shape[1]} senders; found {len(actual)}")
    right = np.zeros(len(actual), dtype=np.bool_)
    near = CLOSE * float(np.abs(actual).max(initial=0.0))
    right[solution.unknowns] = (np.abs(rows - actual[solution.unknowns]) <= near).all(axis=1)
    common, finding = largest_share(actual), "senders' rows are recovered."
    prior = common if common * len(actual) > 1 else 0.0
    return Terms(share_right("rows recovered", right, None, finding, prior=prior), solution.unknowns, rows)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Inversion(Result):
    """Inputs whose gradient is close to the observed one.

    Attributes:
        inputs: float64 [b, ...], in the order of the truth where one is given.
        labels: int64 [b], likewise.
        distance: between their gradient and the observed one: 1 - cosine, or the squared distance in units of the
            observed gradient's squared length.
    """

    inputs: NDArray[np.float64]
    labels: Ids
    distance: float


Call = Callable[[torch.nn.Module, torch.Tensor], torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class _ModuleGradient:
    """The gradient of a module; see `Sought`."""

    call: Callable[[torch.Tensor], torch.Tensor]  # inputs to logits
    loss: Loss
    parameters: tuple[torch.Tensor, ...]
    goal: torch.Tensor
    shape: tuple[int, ...]
    classes: int
    labels: Ids
    box: tuple[float, float] | None
    image_shape: tuple[int, int] | None

    def gradient_of(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        value = self.loss(self.call(x), labels)
        slopes = torch.autograd.grad(value, self.parameters, create_graph=True, materialize_grads=True)
        return torch.cat([slope.reshape(-1) for slope in slopes])

    def prior(self, x: torch.Tensor) -> torch.Tensor:
        return VARIATION * total_variation(x, self.image_shape) if self.image_shape else x.new_zeros(())


_METHODS = {"cosine": inverting_gradients, "dlg": deep_leakage, "idlg": improved_deep_leakage}


def invert(
    model: torch.nn.Module,
    gradient: Sequence[torch.Tensor | None] | Mapping[str, torch.Tensor] | torch.Tensor,
    shape: Sequence[int],
    *,
    labels: ArrayLike | None = None,
    method: str = "cosine",
    call: Call | None = None,
    loss: Loss = functional.cross_entropy,
    box: tuple[float, float] | None = (0.0, 1.0),
    image_shape: tuple[int, int] | None = None,
    effort: Effort | None = None,
    truth: ArrayLike | None = None,
    public: ArrayLike | None = None,
) -> Inversion:
    """Invert the gradient of any torch module: search for inputs that produce it.

    The module is copied, and works in double precision and in the mode that it is in. Parts whose second derivative is
    zero or random (max pooling over ties, dropout in training mode) make the search harder or impossible.

    Args:
        model: at the weights that the gradient was taken at.
        gradient: of the mean loss, as tensors in the order of `model.parameters()`, by name, or as one flat tensor.
        shape: of the inputs, the batch first; of a graph model that of all nodes' rows.
        labels: int [b]; read from the gradient of the last bias unless given, which tells those of several inputs in no
            order.
        method: `cosine` (Geiping et al., NeurIPS 2020, Eq. 4: signed Adam on the angle), `dlg` (Zhu et al., NeurIPS
            2019: L-BFGS on inputs and labels) or `idlg` (Zhao et al. 2020: labels first).
        call: takes the model and inputs to logits [b, c]; `model(inputs)` unless given. A graph model's edges, and
            which nodes the loss is over, go in here.
        loss: of logits and of labels, int64 [b] or probabilities [b, c].
        box: least and largest entry of an input; None where they may be any number.
        image_shape: (height, width) of the last axes, where inputs are pictures: these are taken to be smooth.
        effort: steps, tries and seed; 300 steps for `cosine` and two tries of 150 for the others unless given.
        truth: [b, ...], the true inputs, or [m, ...] of all nodes, of which the first b are the batch.
        public: [k, ...], inputs that the attacker has from elsewhere, for the baseline.

    Returns:
        The inputs. With a truth also the share of inputs with every entry right up to 1/32 of the box; the baseline is
        the mean of public inputs, or the middle of the box (zeros without one) where none are given.

    Raises:
        InputError: shapes do not fit, labels can't be read, or a number is not finite.

    Examples:
        >>> model = torch.nn.Linear(4, 3)
        >>> x, y = torch.tensor([[0.1, 0.9, 0.4, 0.6]]), torch.tensor([2])
        >>> seen = torch.autograd.grad(functional.cross_entropy(model(x), y), tuple(model.parameters()))
        >>> found = invert(model, seen, (1, 4), method="idlg", truth=x)
        >>> found.score, found.labels
        (1.0, array([2]))
    """
    if not isinstance(method, str) or method not in _METHODS:
        raise InputError(f'method must be "cosine", "dlg" or "idlg"; found {method!r}')
    observed = _observe_module(model, gradient, tuple(shape), labels, call, loss, box, image_shape)
    trying, attempt = effort or (Effort(300) if method == "cosine" else Effort(150, 2)), _METHODS[method]
    best = min((attempt(observed, trying.steps, start) for start in trying.starts()), key=lambda item: item.distance)
    result, batch = np.asarray(best.features), len(observed.labels)
    if truth is None:
        return Inversion(None, result, best.labels, best.distance)
    order, measured = _score_inputs(result, batch, as_floats(truth, "truth"), box, public)
    return Inversion(measured, result[order], best.labels[order[:batch]], best.distance)


def _score_inputs(
    result: NDArray[np.float64],
    batch: int,
    truth: NDArray[np.float64],
    box: tuple[float, float] | None,
    public: ArrayLike | None,
) -> tuple[Ids, Measurement]:
    """The order of the inputs that fits the truth best, and the share of the batch that is recovered."""
    check_finite(truth, "truth")
    if truth.shape[1:] != result.shape[1:] or len(truth) not in (batch, len(result)):
        raise InputError(f"truth must have shape {list(result.shape)}; found {list(truth.shape)}")
    flat, true = result.reshape(len(result), -1), truth.reshape(len(truth), -1)
    order = match_rows(flat[: len(true)], true, batch)
    scale = 1.0 if box is None else box[1] - box[0]
    guess = np.full(true.shape[1], 0.0 if box is None else sum(box) / 2)
    if public is not None:
        width = true.shape[1]
        rows = as_floats(public, "public")
        rows = rows.reshape(len(rows), -1) if rows.size else np.empty((0, 0))
        if not len(rows) or rows.shape[1] != width:
            raise InputError(f"public must have inputs of {width} entries; found shape {list(rows.shape)}")
        guess = rows.mean(axis=0)
    right = is_recovered(flat[order[:batch]] / scale, true[:batch] / scale)
    prior = float(is_recovered(np.tile(guess / scale, (batch, 1)), true[:batch] / scale).mean())
    finding = "inputs are recovered with every entry within 1/32."
    return order, share_right("inputs", right, None, finding, prior=prior)


def _observe_module(
    model: torch.nn.Module,
    gradient: Any,
    shape: tuple[int, ...],
    labels: ArrayLike | None,
    call: Call | None,
    loss: Loss,
    box: tuple[float, float] | None,
    image_shape: tuple[int, int] | None,
) -> _ModuleGradient:
    if box is not None and not (box[0] < box[1] and np.isfinite(box).all()):
        raise InputError(f"box must be a least and a larger finite number, or None; found {box}")
    if not shape or min(shape) < 1:
        raise InputError(f"shape must have at least one input and no empty axis; found {list(shape)}")
    model_copy = copy.deepcopy(model).to(device="cpu", dtype=torch.float64)
    parameters = {name: value for name, value in model_copy.named_parameters() if value.requires_grad}
    parts = gradient_parts(gradient, parameters)

    def logits_of(x: torch.Tensor) -> torch.Tensor:
        return model_copy(x) if call is None else call(model_copy, x)

    middle = torch.full(shape, 0.0 if box is None else (box[0] + box[1]) / 2, dtype=torch.float64)
    try:
        with torch.no_grad():
            logits = logits_of(middle)
            if image_shape is not None:
                total_variation(middle, image_shape)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"shape must be what the model, and image_shape, take; found {list(shape)}: {error}"
        ) from error
    if logits.ndim != 2:
        raise InputError(f"call must give logits [b, c]; found shape {list(logits.shape)}")
    batch, classes = logits.shape
    if labels is None:
        expected = logits.softmax(dim=1).mean(dim=0).numpy()
        label_indices = np.repeat(np.arange(classes), count_labels(_last_bias(parts, classes), expected, batch))
    else:
        label_indices = _indices(labels, batch, classes, "labels")
    goal = torch.cat([part.reshape(-1) for part in parts.values()])
    return _ModuleGradient(
        logits_of, loss, tuple(parameters.values()), goal, shape, classes, label_indices, box, image_shape
    )  # fmt: skip


def _last_bias(parts: Mapping[str, torch.Tensor], classes: int) -> Floats:
    vectors = [part for part in parts.values() if part.shape == (classes,)]
    if not vectors:
        raise InputError(f"labels must be given, for no parameter is a bias of {classes} logits; found none")
    return np.asarray(vectors[-1].numpy())


def _matrix(values: Any, name: str, *, columns_of: Any = None) -> Floats:
    """float64 [r, c] of an array, a tensor or a sparse matrix."""
    matrix = as_floats(values, name)
    if matrix.ndim != 2:
        raise InputError(f"{name} must be a matrix; found {matrix.ndim} axes")
    if not np.isfinite(matrix).all():
        raise InputError(f"{name} must be finite; found NaN or infinity")
    if columns_of is not None and matrix.shape[1] != (width := _matrix(columns_of, name).shape[1]):
        raise InputError(f"{name} must have {width} columns; found {matrix.shape[1]}")
    return matrix


def _whole(number: Any, name: str) -> int:
    if not isinstance(number, int | np.integer) or number < 0:
        raise InputError(f"{name} must be an integer of at least 0; found {number!r}")
    return int(number)


def _indices(values: ArrayLike, count: int, below: int, name: str) -> Ids:
    indices = np.asarray(values)
    inside = indices.dtype.kind in "iu" and ((indices >= 0) & (indices < below)).all()
    if indices.shape != (count,) or not inside:
        raise InputError(
            f"{name} must be {count} integers in 0..{below - 1}; found {indices.dtype} {list(indices.shape)}"
        )
    return indices.astype(np.int64)
