"""How FedSage+ is trained: with the settings of its public code as far as they are known, or honestly.

The public code (zkhku/fedsage) hides half of a client's nodes, generates five neighbours at most, has embeddings of
width 128 from a hidden width of 32, gives every term of the loss weight 1, and takes 20 steps of Adam (.001, L2 factor
1e-4) on a generator at home and 20 more together. Its classifier is GraphSAGE of width 64 on samples of five
neighbours, averaged over 20 rounds. Which values the paper's tables were printed with is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.training.presets import PRESETS, AveragedPreset, Selection


@dataclass(frozen=True, slots=True)
class GeneratorPreset:
    """How a client learns to generate the neighbours that its nodes miss (4.2).

    Attributes:
        hidden_share: of the client's nodes, drawn at random, that are hidden from the others while it learns.
        most: neighbours that are generated for a node.
        encoder: hidden width of the encoder.
        latent: width of an embedding.
        width: hidden width of the generator of features.
        alone: steps that a client takes by itself, on all of its generator.
        rounds: steps on the generator of features that clients take together.
        learning_rate: of Adam, in both.
        weight_decay: factor of the L2 penalty.
        cross: alpha, the weight of another client's loss beside the own one.
    """

    hidden_share: float = 0.5
    most: int = 5
    encoder: int = 32
    latent: int = 128
    width: int = 128
    alone: int = 100
    rounds: int = 20
    learning_rate: float = 0.01
    weight_decay: float = 1e-4
    cross: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.hidden_share < 1:
            raise InputError(f"hidden_share must lie inside (0, 1); found {self.hidden_share}")
        for name, least in (("encoder", 1), ("latent", 1), ("width", 1), ("most", 0), ("alone", 0), ("rounds", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}; found {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class FedSagePreset(AveragedPreset):
    """Everything about training that is not the graph or how sums are computed; `hops` are layers of the classifier.

    Attributes:
        generator: how generators are trained.
    """

    generator: GeneratorPreset = GeneratorPreset()  # frozen

    @property
    def rounds_together(self) -> int:
        """Rounds in which generators are trained together; none where nothing is generated."""
        return self.generator.rounds if self.generator.most else 0

    def with_generator(self, rounds: int | None, most: int | None) -> FedSagePreset:
        """The same preset with other rounds for generators or other neighbours; None changes nothing."""
        chosen = self.generator
        rounds, most = chosen.rounds if rounds is None else rounds, chosen.most if most is None else most
        return replace(self, generator=replace(chosen, rounds=rounds, most=most))


HONEST = FedSagePreset("honest", hidden=64, epochs=100, learning_rate=0.5, descent=True, weight_decay=5e-4)
"""One step of gradient descent a round on the whole mended graph, the round chosen on validation nodes."""

_PUBLISHED = replace(
    HONEST,
    name="paper",
    selection=Selection.TEST,
    generator=GeneratorPreset(width=256, alone=20, learning_rate=1e-3),
)
"""What is known of the public code on the generator; for the classifier, which there takes samples, as `HONEST`."""


def fedsage_preset(name: str) -> FedSagePreset:
    """The preset of a name; it is the same for all data sets.

    Args:
        name: "honest" reports the best round on validation data, "paper" the best on test data.
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return HONEST if name == "honest" else _PUBLISHED
