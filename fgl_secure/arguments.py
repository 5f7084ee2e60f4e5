"""The options that several commands share, and what they mean.

Nothing heavy is imported before an option is used: --help and bad usage answer at once.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fgl_secure.errors import InputError

if TYPE_CHECKING:
    from fgl_secure.commands.options import Options
    from fgl_secure.commands.privacy import PrivacyChoice
    from fgl_secure.methods.fedavg.choice import UpdateChoice
    from fgl_secure.methods.fedstruct.choice import StructureChoice


DIGITS = "digits"
EMBEDDED = {"fedvn": "Motif-mini"}
"""The data set of a method when none is named: one that needs no download."""

SERVER_SUMS = ("fedavg", "fedspray", "fedvn")
"""Methods that exchange nothing but sums for the server, so that --scheme and not --protocol protects them."""

TREES = ("fed2gnn",)
"""Methods for which --hops is the depth of trees."""


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Adds what `audit` and `train` have in common."""
    add = parser.add_argument
    add("--dataset", default=None, metavar="NAME",
        help="data set, see fgl-secure list datasets, or a graph of your own: the path of an .npz file with the "
             "arrays x, y, edge_index as in PyTorch Geometric; None takes digits, or Motif-mini for fedvn")  # fmt: skip
    add("--partition", default="random", metavar="NAME", help="devices to silos: random (equal sizes) or louvain")
    add("--silos", type=int, default=5, metavar="K", help="number of silos")
    add("--silo-file", type=Path, default=None, metavar="FILE",
        help="silo of each device, one integer a line or .npy; replaces --partition and --silos")  # fmt: skip
    add("--backbone", default=None, metavar="NAME",
        help="graph neural network: gcn or sage; also sgc for fedspray and dagnn for fed2gnn; fedvn has gin alone; "
             "None takes gcn, or gin")  # fmt: skip
    add(
        "--preset",
        default="honest",
        metavar="NAME",
        help="honest (chosen on validation data, FedAvg) or paper (as published)",
    )
    add("--epochs", type=int, default=None, metavar="N", help="most training rounds; None takes the preset's")
    add("--seed", type=int, default=0, metavar="S", help="of partition, split, weights, and of an audit's coins")
    add("--data-root", type=Path, default=None, metavar="DIR",
        help="folder of raw data sets in PyG's layout; None takes FGL_SECURE_DATA, then PyG's download")  # fmt: skip
    add("--device", default="auto", metavar="NAME", help="where model compute runs: auto, cpu or cuda")
    add("--static-first-layer", action="store_true",
        help="sum the neighbours' features once and project the sum anew in every round")  # fmt: skip
    _add_structure_options(parser)
    _add_update_options(parser)
    _add_method_options(parser)
    _add_relay_options(parser)
    _add_privacy_options(parser)
    _add_coding_options(parser)


def _add_structure_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("fedstruct").add_argument
    add("--features", default="hop2vec", metavar="NAME",
        help="structure features: hop2vec (learnt), degree, graphlet, fedstar or node2vec")  # fmt: skip
    add("--exchange", action="append", default=[], metavar="NAME",
        help="how structure is exchanged: plaintext (as published), ckks, pairwise-masking, or hopwise, which runs "
             "under --protocol; repeatable in audit")  # fmt: skip
    add("--hops", type=int, default=None, metavar="L",
        help="power of the adjacency, and for fed2gnn depth of the trees; None takes the preset's")  # fmt: skip
    add("--pruning", default=None, choices=("none", "shares", "matrix"),
        help="shares: largest entries of each term (the paper); matrix: of the whole power (its code); None takes "
             "matrix where the preset prunes")  # fmt: skip
    add("--kept", type=int, default=None, metavar="P", help="entries kept for each node; None takes the preset's")
    add("--sharing", default="shared", choices=("shared", "queries"),
        help="who holds structure features: everybody, or owners, who answer aggregated queries")  # fmt: skip
    add("--delivery", default="server", choices=("server", "owner"),
        help="to whom gradients of learnt structure features go")  # fmt: skip
    add("--tau", type=float, default=0.9, metavar="TAU", help="leverage beyond which a query is refused")
    add("--count-queries", action="store_true", help="refuse queries by their number, as the paper does")
    add("--pooled", action="store_true", help="audit queries as if all requesters pooled their answers")


def _add_update_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("sums for the server: fedavg, fedspray, fedvn, and models of fed2gnn").add_argument
    add("--scheme", action="append", default=[], metavar="NAME",
        help="how updates are summed: plaintext, pairwise-masking, lightsecagg, ckks; repeatable in audit")  # fmt: skip
    add("--threshold", type=int, default=None, metavar="T",
        help="least clients that must be left at every stage; None takes the scheme's own")  # fmt: skip
    add("--batch", type=int, default=None, metavar="B", help="labelled nodes of a client's step; None takes all")
    add("--local-steps", type=int, default=1, metavar="E", help="steps that a client takes in a round")
    add("--local-rate", type=float, default=0.1, metavar="R", help="learning rate of these steps")
    add("--noise", type=float, default=None, metavar="Z",
        help="noise on the sum of the updates: its standard deviation over the clip; None for no noise")  # fmt: skip
    add("--clip", type=float, default=1.0, metavar="C", help="L2 norm to which updates are clipped under --noise")


def _add_method_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("fed2gnn and fedvn").add_argument
    add("--neighbours", type=int, default=None, metavar="D",
        help="most neighbours at other clients that a node of fed2gnn asks about; None takes the preset's")  # fmt: skip
    add("--virtual-nodes", type=int, default=None, metavar="M",
        help="virtual nodes of fedvn; None takes the preset's")  # fmt: skip


def _add_relay_options(parser: argparse.ArgumentParser) -> None:
    relayed = parser.add_argument_group("relay-coded")
    relayed.add_argument("--relays", type=int, default=None, metavar="R", help="number of relays; None takes T + 1")
    relayed.add_argument("--k-min", type=int, default=3, metavar="K", help="least messages of a sum that is computed")
    relayed.add_argument("--profile", default="base", choices=("base", "anon"),
                         help="base: relays see who sends; anon: silos forward, and all counts are padded")  # fmt: skip


def _add_privacy_options(parser: argparse.ArgumentParser) -> None:
    private = parser.add_argument_group("differential privacy of embeddings and gradients, on top of any protocol")
    private.add_argument("--dp-epsilon", type=float, default=None, metavar="E", help="of all rounds; None for no noise")
    private.add_argument("--dp-delta", type=float, default=1e-5, metavar="D", help="of all rounds")
    private.add_argument(
        "--dp-unit", default="edge", choices=("edge", "node"), help="what neighbouring inputs differ in"
    )
    private.add_argument("--dp-clip", type=float, default=1.0, metavar="C", help="L2 norm to which rows are clipped")
    private.add_argument("--dp-cap", type=int, default=None, metavar="B",
                         help="most neighbours of a device under --dp-unit node; more are refused")  # fmt: skip
    private.add_argument("--dp-rounds", type=int, default=None, metavar="N",
                         help="rounds that the budget is for, after which training stops; None for all")  # fmt: skip


def _add_coding_options(parser: argparse.ArgumentParser) -> None:
    coding = parser.add_argument_group("coding parameters of secmp and relay-coded")
    coding.add_argument(
        "--field", type=int, default=2**31 - 1, metavar="P", help="size of the field, a prime; the paper's is 11"
    )
    coding.add_argument(
        "--T",
        type=int,
        default=1,
        metavar="T",
        help="number of masks: codes less one of secmp, relays that may collude of relay-coded",
    )
    coding.add_argument("--bound", type=float, default=16.0, metavar="X", help="largest magnitude of one value")
    coding.add_argument(
        "--fraction-bits",
        type=int,
        default=None,
        metavar="F",
        help="bits behind the binary point; None takes as many as fit",
    )
    coding.add_argument(
        "--mu", default="silo", choices=("silo", "target"), help="who hands secmp's coding parameters to a source"
    )
    coding.add_argument(
        "--allow-wrap", action="store_true", help="let secmp's sums wrap in a field that is too small, as published"
    )


def options_of(chosen: argparse.Namespace) -> Options:
    """The choices of a parsed command line."""
    from fgl_secure.algebra import Overflow
    from fgl_secure.commands.options import BACKBONES, Options
    from fgl_secure.methods.fed2gnn.choice import TreeChoice
    from fgl_secure.methods.fedvn.choice import VirtualChoice
    from fgl_secure.protocols.registry import Parameters
    from fgl_secure.protocols.relay_coded import Profile
    from fgl_secure.protocols.secmp import MuDelivery

    parameters = Parameters(
        modulus=chosen.field,
        T=chosen.T,
        bound=chosen.bound,
        fraction_bits=chosen.fraction_bits,
        overflow=Overflow.WRAP if chosen.allow_wrap else Overflow.REFUSE,
        mu_delivery=MuDelivery(chosen.mu),
        relays=chosen.relays,
        k_min=chosen.k_min,
        profile=Profile(chosen.profile),
    )
    return Options(
        method=chosen.method,
        dataset=chosen.dataset or EMBEDDED.get(chosen.method, DIGITS),
        partition=chosen.partition,
        silos=chosen.silos,
        silo_file=chosen.silo_file,
        backbone=chosen.backbone or BACKBONES.get(chosen.method, ("gcn",))[0],
        preset=chosen.preset,
        epochs=chosen.epochs,
        seed=chosen.seed,
        data_root=chosen.data_root,
        device=chosen.device,
        static_first_layer=chosen.static_first_layer,
        privacy=_privacy(chosen),
        parameters=parameters,
        structure=_structure(chosen),
        updates=_updates(chosen),
        trees=TreeChoice(chosen.hops if chosen.method in TREES else None, chosen.neighbours),
        virtual=VirtualChoice(chosen.virtual_nodes),
    )


def _updates(chosen: argparse.Namespace) -> UpdateChoice:
    from fgl_secure.methods.fedavg.choice import UpdateChoice
    from fgl_secure.methods.fedavg.subjects import TRAINED

    trains = "json" in chosen and chosen.method in SERVER_SUMS  # train runs one scheme, an audit shows several
    one = (TRAINED,) if trains else ()
    schemes = tuple(chosen.scheme) or one
    local = (chosen.batch, chosen.local_steps, chosen.local_rate)
    return UpdateChoice(schemes, chosen.threshold, *local, chosen.noise, chosen.clip)


def _structure(chosen: argparse.Namespace) -> StructureChoice:
    from fgl_secure.methods.fedstruct.choice import StructureChoice
    from fgl_secure.methods.fedstruct.exchange import FeatureSharing, GradientDelivery
    from fgl_secure.methods.fedstruct.subjects import TRAINED
    from fgl_secure.protocols.hop_adjacency import Pruning

    trains = "json" in chosen and chosen.method == "fedstruct"  # train runs one exchange, an audit shows several
    one = (str(TRAINED),) if trains else ()
    return StructureChoice(
        features=chosen.features,
        exchanges=tuple(chosen.exchange) or one,
        hops=None if chosen.method in TREES else chosen.hops,
        pruning=None if chosen.pruning is None else Pruning(chosen.pruning),
        kept=chosen.kept,
        sharing=FeatureSharing(chosen.sharing),
        delivery=GradientDelivery(chosen.delivery),
        counting=chosen.count_queries,
        most_leverage=chosen.tau,
        pooled=chosen.pooled,
    )


def _privacy(chosen: argparse.Namespace) -> PrivacyChoice | None:
    from fgl_secure.commands.privacy import PrivacyChoice
    from fgl_secure.dp import Unit

    noiseless, no_epsilon = chosen.dp_epsilon is None, 0.0
    choice = PrivacyChoice(
        no_epsilon if noiseless else chosen.dp_epsilon,
        chosen.dp_delta,
        Unit[chosen.dp_unit.upper()],
        chosen.dp_clip,
        chosen.dp_cap,
        chosen.dp_rounds,
    )
    if not noiseless:
        return choice
    usual = PrivacyChoice(no_epsilon)
    for name in ("delta", "unit", "clip", "cap", "rounds"):
        if getattr(choice, name) != getattr(usual, name):
            found = getattr(chosen, f"dp_{name}")
            raise InputError(f"dp_{name} must go with dp_epsilon, without which there is no noise; found {found}")
    return None
