"""`fgl-secure model-leakage`."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgl_secure.ceilings import ceiling_lines, read_ceilings
from fgl_secure.cli.output import OK, VIOLATED, say
from fgl_secure.cli.parser import place
from fgl_secure.cli.subcommand import Subcommand
from fgl_secure.cli.usage import add_ceilings, add_common_options
from fgl_secure.errors import InputError
from fgl_secure.progress import show_progress

if TYPE_CHECKING:
    from fgl_secure.attacks.outputs import ModelAudit, ModelLeakage, ShadowTraining

NAME = "model-leakage"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("--dataset", default="digits", metavar="NAME", help="data set, or path of an .npz file")
    add("--normalise", action="store_true", help="divide each row of features by its sum")
    add("--answers", type=place, default=None, metavar="FILE",
        help="probabilities [nodes, classes] of a model of your own, .npy; None trains models")  # fmt: skip
    add("--members", type=place, default=None, metavar="FILE",
        help="its training nodes: bool [nodes] or indices, .npy")  # fmt: skip
    add("--shadows", type=int, default=32, metavar="M", help="shadow models")
    add("--targets", type=int, default=8, metavar="T", help="trained models that are attacked")
    add("--hidden", type=int, default=64, metavar="H", help="width of the hidden layer")
    add("--epochs", type=int, default=200, metavar="N", help="steps of training")
    add("--weight-decay", type=float, default=5e-4, metavar="W", help="of Adam")
    add("--dropout", type=float, default=0.5, metavar="P", help="share of hidden entries that are dropped")
    add("--neighbourhoods", type=int, default=200, metavar="N",
        help="nodes that G-BASE asks about, drawn at random; 0 leaves it out")  # fmt: skip
    add_ceilings(parser, "; a number alone is for membership.auc")
    add("--seed", type=int, default=0, metavar="S", help="of training nodes and training")
    add("--device", default="cpu", choices=("cpu", "cuda"), help="where models are trained")
    add("--models", type=place, default=None, metavar="DIR",
        help="folder for finished models; an interrupted call goes on from there")  # fmt: skip
    add("--data-root", type=place, default=None, metavar="DIR",
        help="folder of raw data sets in PyG's layout; None takes FGL_SECURE_DATA, then PyG's download")  # fmt: skip
    add_common_options(parser)


def run(chosen: argparse.Namespace, words: list[str]) -> int:
    """Attack trained models, or the answers of one, and print what they reveal."""
    from fgl_secure.attacks.outputs import ShadowTraining  # noqa: PLC0415  # loads torch

    ceilings = read_ceilings(chosen.ceiling)
    training = ShadowTraining(chosen.hidden, chosen.epochs, 0.01, chosen.weight_decay, chosen.dropout)
    if (chosen.answers is None) != (chosen.members is None):
        raise InputError("members must be given with answers, and answers with members; found one of the two")
    result = _audit(chosen, training)
    command = shlex.join(["fgl-secure", *words])
    say(json.dumps({"command": command, "rows": result.rows()}, indent=2) if chosen.json else repr(result))
    above = ceiling_lines(result, ceilings)
    if not chosen.json:
        for line in above:
            say(line)
    return VIOLATED if above else OK


def _audit(chosen: argparse.Namespace, training: ShadowTraining) -> ModelAudit | ModelLeakage:
    import numpy as np  # noqa: PLC0415

    from fgl_secure.attacks.outputs import audit_model, model_leakage  # noqa: PLC0415
    from fgl_secure.graph import Data, Graph  # noqa: PLC0415

    graph = Data(chosen.dataset, silos=1, root=chosen.data_root).load(chosen.seed).graph
    if chosen.normalise:
        sums = np.abs(graph.features).sum(axis=1, keepdims=True)
        graph = Graph.from_arrays(graph.name, graph.features / np.where(sums > 0, sums, 1), graph.labels, graph.edges)
    options: dict[str, Any] = {name: getattr(chosen, name) for name in ("shadows", "seed", "device", "neighbourhoods")}
    options |= {"training": training, "folder": chosen.models}
    with show_progress(quiet=chosen.quiet) as phases:
        if chosen.answers is not None:
            phases("training shadow models")
            answers, members = _read(chosen.answers), _read(chosen.members)
            return audit_model(answers, graph, members, **options)
        phases("training models and attacking them")
        return model_leakage(graph, targets=chosen.targets, **options)


def _read(path: Path) -> Any:
    import numpy as np  # noqa: PLC0415

    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} must be an array written by numpy.save; found {error}") from error


MODEL_LEAKAGE = Subcommand(NAME, "attack what finished models answer: training nodes, edges", add_arguments, run)
