"""HiFGL (KDD 2024) and its choices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from fgl_secure.auditing.method import ProgramMethod
from fgl_secure.backbones import maker, names
from fgl_secure.config_fields import check_choices, choice, part, required_field
from fgl_secure.errors import InputError
from fgl_secure.training.local_privacy import LocalPerturbation

if TYPE_CHECKING:
    import torch

    from fgl_secure.auditing.method import AuditRequest, Usual
    from fgl_secure.auditing.plan import AuditPlan
    from fgl_secure.schemes import Assignment
    from fgl_secure.training.collectives import Collectives
    from fgl_secure.training.loop import TrainingRounds
    from fgl_secure.training.presets import Preset
    from fgl_secure.training.silo import Facts


@dataclass(frozen=True, slots=True)
class EmbeddingPrivacy:
    """Differential privacy of what devices send, on top of any scheme.

    Attributes:
        epsilon: of all rounds together.
        delta: of all rounds together.
        unit: what two neighbouring inputs differ in.
        clip: C, the L2 norm to which rows are clipped.
        cap: most messages that a device may send in one pass, for unit "node"; a run refuses devices beyond it.
        rounds: rounds that the budget is made for, after which training stops; None for all of the run's.
    """

    epsilon: float = required_field("of all rounds; None for no noise", shown="E")
    delta: float = choice(1e-5, "of all rounds", shown="D")
    unit: str = choice("edge", "what neighbouring inputs differ in", known=("edge", "node"))
    clip: float = choice(1.0, "L2 norm to which rows are clipped", shown="C")
    cap: int | None = choice(None, "most neighbours of a device under unit node; more are refused", shown="B")
    rounds: int | None = choice(
        None, "rounds that the budget is for, after which training stops; None for all", least=1, shown="N"
    )

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True)
class HiFGL(ProgramMethod):
    """HiFGL: every device has one node and its edges, and hears sums of its neighbours' embeddings.

    Attributes:
        backbone: graph neural network.
        preset: "honest", "paper" (what the text says, with Eqs. 2 and 3 as `gcn`) or "public-code" (what the authors'
            code does).
        epochs: most training rounds; None takes the preset's.
        static_first_layer: whether the neighbours' features are summed once and for all.
        gradients: how relays sum parameter gradients of a silo's devices, where the scheme has relays: "coded" as
            products of two rows, or "dense", which masks every entry of every device's gradients.
        privacy: of what devices send, with noise in every message; None for no noise.
        perturbation: of features at devices, once for the whole run; None trains on them as they are.
        without_noise: whether an audit has a run without noise beside each with noise.

    Raises:
        UnknownNameError: there is no such backbone or preset.
        InputError: a number is out of range.

    Examples:
        train(HiFGL(epochs=20), "digits").accuracy.test
    """

    name: ClassVar[str] = "hifgl"
    title: ClassVar[str] = "HiFGL"
    task: ClassVar[str] = "node classification over devices, silos and a server (KDD 2024)"
    summed: ClassVar[str] = (
        "embeddings of a device's neighbours for the device, and their gradients backward; parameter gradients, losses "
        "and right predictions of a silo's devices for the silo; silos' models and counts for the server"
    )
    sees: ClassVar = MappingProxyType({
        "plaintext": "a device its neighbours' embeddings, a silo each device's gradient, the server each silo's model",
        "secmp": "a device codes that it can decode (broken), a silo who asks for whom and each device's gradient",
        "relay-coded": "a device the sum over k_min partners or more, a process that hosts a silo's devices what is "
        "left of that sum without their rows, a silo sums of gradients, each relay equally many messages per device",
        "pairwise-masking": "the server the mean of the silos' models, and how many predictions are right in all",
    })  # fmt: skip
    tells: ClassVar = MappingProxyType({("model", "silo", "device"): "the model that the silo's devices compute with"})

    backbone: str = choice("gcn", "graph neural network", known=names)
    preset: str = choice(
        "honest",
        "honest (chosen on validation data, FedAvg), paper (as its text says) or public-code (as its code does)",
        known=("honest", "paper", "public-code"),
    )
    epochs: int | None = choice(None, "most training rounds; None takes the preset's", least=1, shown="N")
    static_first_layer: bool = choice(
        False, "sum the neighbours' features once and project the sum anew in every round"
    )
    gradients: str = choice(
        "coded",
        "parameter gradients over relays: coded (products of two rows of each device) or dense (every entry masked)",
        known=("coded", "dense"),
    )
    privacy: EmbeddingPrivacy | None = part(
        EmbeddingPrivacy, "dp", "differential privacy of embeddings and gradients, on top of any scheme"
    )
    perturbation: LocalPerturbation | None = part(
        LocalPerturbation, "local", "local differential privacy: each device perturbs its features once"
    )
    without_noise: bool = choice(False, "audit each scheme without noise, too, beside runs with noise")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.privacy is not None and self.perturbation is not None:
            raise InputError("perturbation must be None where privacy adds noise to every message; both were given")
        if self.without_noise and self.privacy is None and self.perturbation is None:
            raise InputError("without_noise must go with privacy or perturbation, which add noise; found neither")

    @property
    def usual(self) -> Usual:
        """See `Method.usual`. Noise for an edge counts its own rows; what an edge changes in partners it doesn't."""
        return {} if self.privacy is None else {"neighbours": {"profile": "graph-shown"}}

    def program(self, comm: Collectives, *, seed: int, device: torch.device) -> TrainingRounds:
        """See `ProgramMethod.program`."""
        from fgl_secure.methods.hifgl.program import HiFGLSilo as Program  # torch comes with it

        preset, local = self.training(comm.silo.facts.name), self.perturbation
        return Program(comm, preset, backbone=self.backbone, seed=seed, device=device, perturbation=local)

    def width(self, facts: Facts) -> int:
        """See `ProgramMethod.width`."""
        from fgl_secure.training.backbones import widest  # torch comes with it

        preset = self.training(facts.name)
        widths = preset.widths(facts.features, facts.classes)
        width = widest(maker(self.backbone, preset.layers_of), widths)
        return max(width, facts.features if preset.static_first_layer or self.perturbation is not None else 1)

    def assign_schemes(self, run: Assignment) -> Assignment:
        """With products for members whose scheme has them, where gradients are to be coded."""
        from fgl_secure.protocols.coded_products import with_products  # numba comes with it

        if self.gradients == "dense":
            return run
        try:
            return {**run, "members": with_products(run["members"])}
        except InputError as error:
            raise InputError(f'{error}; take fewer, or gradients="dense"') from error

    def most_rounds(self, facts: Facts) -> int:
        """See `ProgramMethod.most_rounds`."""
        return self.training(facts.name).epochs

    def training(self, dataset: str) -> Preset:
        """The preset for a data set, with what was chosen in its place; an adapted module has its own shape."""
        from fgl_secure.training.backbones import shape_preset  # torch comes with it
        from fgl_secure.training.presets import preset  # as above

        result = preset(self.preset, dataset).with_epochs(self.epochs)
        result = shape_preset(maker(self.backbone, result.layers_of), result)
        return replace(result, static_first_layer=self.static_first_layer)

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_secure.methods.hifgl.audit_target import hifgl_plan

        return hifgl_plan(self, request)
