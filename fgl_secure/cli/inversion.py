"""`fgl-secure attack gradient-inversion` on the command line; nothing heavy is loaded before it runs."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from fgl_secure.cli.parser import place

if TYPE_CHECKING:
    from fgl_secure.methods.fedavg.inversion.options import InvertOptions

BACKBONES = ("gcn", "sage", "sgc")
ATTACKS = ("dlg", "idlg", "inverting", "joint", "analytic", "span", "filter")
SCHEMES = ("plaintext", "pairwise-masking", "lightsecagg", "ckks-shared-key")
ACTIVATIONS = ("softplus", "sigmoid", "relu")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("--dataset", default="digits", metavar="NAME", help="data set, or path of an .npz file")
    add("--backbone", default="sage", choices=BACKBONES, help="how layers aggregate")
    add("--batch", type=int, default=1, metavar="B", help="labelled nodes behind each silo's gradient")
    add("--silos", type=int, default=5, metavar="K", help="number of silos")
    add("--partition", default="random", metavar="NAME", help="how nodes are assigned to silos: random or louvain")
    add("--scheme", default="plaintext", choices=SCHEMES,
        help="how gradients are summed; plaintext sends each to the server as it is")  # fmt: skip
    add("--noise", type=float, default=None, metavar="Z",
        help="deviation of the noise that every silo adds, over the clipping norm; None for no noise")  # fmt: skip
    add("--clip", type=float, default=1.0, metavar="C", help="norm that gradients are cut down to where there is noise")
    add("--delta", type=float, default=1e-5, metavar="D", help="of the epsilon that is printed")
    add("--attack", default="inverting", choices=ATTACKS,
        help="inputs with the same gradient (dlg, idlg, inverting; joint looks for edges too), rows and labels of "
             "single nodes in closed form (analytic), or who was in the batch (span, filter)")  # fmt: skip
    add("--activation", default="softplus", choices=ACTIVATIONS, help="between layers; relu hinders those that match")
    add("--steps", type=int, default=None, metavar="N", help="of the optimiser; None takes the attack's own")
    add("--restarts", type=int, default=None, metavar="R", help="tries; None takes the attack's own")
    add("--seed", type=int, default=0, metavar="S", help="of partition, batches, weights, coins and first guesses")
    add("--data-root", type=place, default=None, metavar="DIR",
        help="folder of raw data sets in PyG's layout; None takes FGL_SECURE_DATA, then PyG's download")  # fmt: skip
    add("--json", action="store_true", help="print one JSON object")
    add("--out", type=place, default=None, metavar="DIR",
        help="folder for inversion.html, with pictures, and inversion.json; None for no files")  # fmt: skip


def output_of(chosen: argparse.Namespace, command: str) -> str:
    """Runs the command, writes its files where a folder was named, and gives what to print.

    Args:
        chosen: the parsed options.
        command: how to repeat it.

    Raises:
        FglSecureError: a choice breaks a rule.
    """
    # torch takes seconds that --help has not
    from fgl_secure.methods.fedavg.inversion.invert import invert  # noqa: PLC0415
    from fgl_secure.methods.fedavg.inversion.page import write_inversion  # noqa: PLC0415
    from fgl_secure.methods.fedavg.inversion.print import as_json, describe  # noqa: PLC0415

    result = invert(options_of(chosen))
    written = () if chosen.out is None else write_inversion(result, chosen.out, command)
    if chosen.json:
        return json.dumps({**as_json(result), "command": command}, indent=2)
    return describe(result) + (f"\nwritten: {written[0]} and {written[1]}" if written else "")


def options_of(chosen: argparse.Namespace) -> InvertOptions:
    """The choices of a parsed command line."""
    from fgl_secure.methods.fedavg.inversion.options import InvertOptions  # noqa: PLC0415

    return InvertOptions(
        dataset=chosen.dataset,
        backbone=chosen.backbone,
        batch=chosen.batch,
        silos=chosen.silos,
        partition=chosen.partition,
        scheme=chosen.scheme,
        noise=chosen.noise,
        clip=chosen.clip,
        delta=chosen.delta,
        attack=chosen.attack,
        activation=chosen.activation,
        steps=chosen.steps,
        restarts=chosen.restarts,
        seed=chosen.seed,
        data_root=chosen.data_root,
    )
