"""`fgl-secure gradient-inversion`."""

from __future__ import annotations

import argparse
import json
import shlex

from fgl_secure.cli.commands import check_folder
from fgl_secure.cli.config import RUN_FILE, run_file
from fgl_secure.cli.output import OK, say
from fgl_secure.cli.parser import place
from fgl_secure.cli.subcommand import Subcommand
from fgl_secure.cli.usage import add_common_options
from fgl_secure.progress import show_progress

NAME = "gradient-inversion"
BACKBONES = ("gcn", "sage", "sgc")
ATTACKS = ("dlg", "idlg", "inverting", "joint", "analytic", "span", "filter")
SCHEMES = ("plaintext", "pairwise-masking", "lightsecagg", "ckks-shared-key")
ACTIVATIONS = ("softplus", "sigmoid", "relu")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("--dataset", default="digits", metavar="NAME", help="data set, or path of an .npz file")
    add("--backbone", default="sage", choices=BACKBONES, help="how layers aggregate")
    add("--batch", type=int, default=1, metavar="B", help="labelled nodes behind the gradient of each client")
    add("--silos", type=int, default=5, metavar="K", help="number of clients")
    add("--partition", default="random", metavar="NAME", help="how nodes are assigned to clients: random or louvain")
    add("--scheme", default="plaintext", choices=SCHEMES,
        help="how gradients are summed; plaintext sends each to the server unprotected")  # fmt: skip
    add("--noise", type=float, default=None, metavar="Z",
        help="standard deviation of each client's noise, over the clipping norm; None for no noise")  # fmt: skip
    add("--clip", type=float, default=1.0, metavar="C", help="clipping norm of gradients under noise")
    add("--delta", type=float, default=1e-5, metavar="D", help="of the epsilon that is printed")
    add("--attack", default="inverting", choices=ATTACKS,
        help="inputs with an equal gradient (dlg, idlg, inverting; joint recovers edges too), features and labels of "
             "single nodes in closed form (analytic), or members of the batch (span, filter)")  # fmt: skip
    add("--activation", default="softplus", choices=ACTIVATIONS, help="between layers; relu hinders gradient matching")
    add("--steps", type=int, default=None, metavar="N", help="of the optimiser; None takes the attack's default")
    add("--restarts", type=int, default=None, metavar="R", help="tries; None takes the attack's default")
    add("--seed", type=int, default=0, metavar="S",
        help="of partition, batches, weights, randomness and first guesses")  # fmt: skip
    add("--data-root", type=place, default=None, metavar="DIR",
        help="folder of raw data sets in PyG's layout; None takes FGL_SECURE_DATA, then PyG's download")  # fmt: skip
    add("--out", type=place, default=None, metavar="DIR",
        help="folder for inversion.html, with pictures, and inversion.json; None for no files")  # fmt: skip
    add_common_options(parser)


def run(chosen: argparse.Namespace, words: list[str]) -> int:
    """Invert one round, print the result, and write files if a folder is named."""
    from fgl_reproduction.inversion.attacked_round import invert  # noqa: PLC0415  # loads torch
    from fgl_reproduction.inversion.options import InvertOptions  # noqa: PLC0415
    from fgl_reproduction.inversion.page import write_inversion  # noqa: PLC0415
    from fgl_reproduction.inversion.report import as_json, describe  # noqa: PLC0415
    from fgl_secure.auditing.report import write_files  # noqa: PLC0415

    if chosen.out is not None:
        check_folder(chosen.out)
    command = shlex.join(["fgl-secure", *words])
    with show_progress(quiet=chosen.quiet) as phases:
        phases(f"gradient inversion by {chosen.attack}")
        result = invert(InvertOptions(**{name: getattr(chosen, name) for name in InvertOptions.__dataclass_fields__}))
    text = json.dumps({**as_json(result), "command": command}, indent=2) if chosen.json else describe(result)
    if chosen.out is not None:
        page, numbers = write_inversion(result, chosen.out, command)
        write_files(chosen.out, {RUN_FILE: run_file(chosen, [NAME])})
        text += "" if chosen.json else f"\nwritten: {page} and {numbers}"
    say(text)
    return OK


GRADIENT_INVERSION = Subcommand(NAME, "reconstruct data from gradients", add_arguments, run)
