"""One recorded run, as an audit attacks it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fgl_secure.attacks.base import Auxiliary, Material
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Transcript


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRun:
    """A run with everything that was said, and its truth for scoring.

    Attributes:
        protocol: the scheme's name, parameters included.
        what: what was exchanged, in words.
        material: which attacks can use it.
        public: what everybody knows of the scheme.
        transcript: what was said.
        truth: what was secret.
        auxiliary: what attackers may know from elsewhere.
    """

    protocol: str
    what: str
    material: Material
    public: PublicParameters
    transcript: Transcript
    truth: Truth
    auxiliary: Auxiliary = field(default_factory=Auxiliary)
