"""What `attack gradient-inversion` prints and writes."""

from __future__ import annotations

import argparse
import json

from fgl_secure.methods.fedavg.inversion.invert import invert
from fgl_secure.methods.fedavg.inversion.options import InvertOptions
from fgl_secure.methods.fedavg.inversion.page import write_inversion
from fgl_secure.methods.fedavg.inversion.print import as_json, describe


def printed(chosen: argparse.Namespace, command: str) -> str:
    """Runs the command, writes its files where a folder was named, and gives what to print.

    Args:
        chosen: the parsed options.
        command: how to repeat it.
    """
    result = invert(options_of(chosen))
    written = () if chosen.out is None else write_inversion(result, chosen.out, command)
    if chosen.json:
        return json.dumps({**as_json(result), "command": command}, indent=2)
    return describe(result) + (f"\nwritten: {written[0]} and {written[1]}" if written else "")


def options_of(chosen: argparse.Namespace) -> InvertOptions:
    """The choices of a parsed command line."""
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
