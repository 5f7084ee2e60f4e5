"""The vocabulary of messages: what each kind carries, in one place for schemes, attacks and reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from fgl_secure.errors import InputError

_KNOWN: dict[str, MessageKind] = {}


class MessageKind(Enum):
    """A kind of message. The name goes into messages, `content` into the table of who saw what.

    Those of this package are members of `Phase`. A package that says something else subclasses this class, too.

    Raises:
        InputError: a kind of that name is there.

    Examples:
        >>> class Greeting(MessageKind):
        ...     HELLO = ("hello", "which silos are there")
        >>> MessageKind.named("HELLO").content
        'which silos are there'
    """

    def __init__(self, label: str, content: str) -> None:
        if self.name in _KNOWN:
            raise InputError(f"kind of message must have a name of its own; found {self.name} twice")
        self.label, self.content = label, content
        _KNOWN[self.name] = self

    @classmethod
    def named(cls, name: str) -> MessageKind | None:
        """Return the kind of a name, of whatever package; None if there is none."""
        return _KNOWN.get(name)


class Phase(MessageKind):
    """The kinds of messages of this package."""

    VALUES = ("values", "embeddings or gradients in the clear")
    ADDRESSES = ("addresses", "which device a value in the clear is for")
    SUMS = ("sums", "sums in the clear")
    PARAMETER_REQUEST = ("parameter request", "a device asks a silo for its coding parameters")
    PARAMETERS = ("coding parameters", "mu: the points alpha and beta and the masks z of a silo")
    CODES = ("codes", "T + 1 Lagrange codes of one embedding or gradient")
    AGGREGATE = ("aggregate", "T + 1 sums of codes, to be decoded")
    DECODED = ("decoded", "the decoded sum of the neighbours' embeddings or gradients")
    KEYS = ("public keys", "public keys, and secrets wrapped for them")
    WANTED = ("wanted messages", "which messages go into sums that are computed, told by the silo of their receivers")
    PARTNERS = ("partner choices", "by which neighbours agree on who exchanges rows with whom")
    REQUESTS = ("partner requests", "a device with few partners is looked after: a request that is passed on")
    TAGS = ("tags", "the fresh tag of a target's sum, to its neighbours")
    SHARE_HEADERS = ("share headers", "tag, slot and attempt of a message whose share the relay expands by itself")
    SHARE_SEEDS = ("share seeds", "tag and seed of a message whose share the relay expands by itself")
    SHARES = ("shares", "one Shamir share of one embedding or gradient, under its tag")
    ROSTERS = ("rosters", "which messages somebody holds, or who has handed in, told so that all go by the same")
    FETCH = ("fetches", "the opening of a tag: a demand for its sum, forwarded by a silo")
    SHARE_SUMS = ("share sums", "the sum of the shares under one tag, or a refusal")
    COUNTS = ("counts", "how many messages a sum of shares has; 0 where it is refused")
    RESENDS = ("resend requests", "a relay asks a sender for a message that another relay holds")
    SEALED = ("sealed", "a ciphertext on its way between a device and a relay")
    MIXED = ("mixed", "a ciphertext on its way between a device and a relay, from one silo to another")
    HOP_ENTRIES = ("hop entries", "entries of a client's share of a power of the adjacency, in the clear")
    VECTORS = ("vectors", "one party's term of a sum, in the clear")
    VECTOR_SUMS = ("vector sums", "the sum of clients' vectors, in the clear")
    ENCRYPTION_KEY = ("encryption keys", "public CKKS parameters and key of the receiver of a sum")
    CIPHERTEXTS = ("ciphertexts", "a client's vector, encrypted for the receiver of the sum")
    CIPHERTEXT_SUMS = ("ciphertext sums", "the sum of clients' vectors, encrypted for its receiver")
    DRAW = ("draws", "commitments to what a graph of clients is drawn from, and then what each committed to")
    SECRET_SHARES = ("secret shares", "shares of a sender's secrets, coded masks or keys, sealed for another sender")
    MASKED_VECTORS = ("masked vectors", "a client's vector under masks that cancel in the sum")
    UNMASKING = (
        "unmasking shares",
        "what opens a sum: shares of masks, of keys of those that dropped out, a decryption",
    )
    VETOES = ("vetoes", "shares of the sum of clients' vetoes, each of them zero or random, and words for a roster")
    MASKED_SUMS = ("masked sums", "the sum of clients' vectors under the mask of its receiver")
    OPENED = ("opened entries", "which entries of a sum enough clients contribute to")
    NODES = ("nodes", "which nodes of the graph are a client's")
    CAPACITIES = ("capacities", "how many cells the next vector for a receiver has")
    THRESHOLDS = ("thresholds", "between which values the least entry that is kept lies")
    STRUCTURE_FEATURES = ("structure features", "the structure features of a client's nodes, by node")
    QUERY_WEIGHTS = ("query weights", "rows of the combined adjacency that a client asks another to apply")
    QUERY_ANSWERS = ("query answers", "weighted sums of structure embeddings of one client's nodes")
    MODEL = ("model", "model parameters")
    ZERO_KEYS = ("keys of zero", "a key that a set of relays draws common shares of zero from")
    FACTOR_SHARES = ("shares of factors", "a share of each row whose products are a device's gradients, or word of it")
    PRODUCT_SHARES = ("shares of products", "the sum of products of a silo's devices' shares, plus a share of zero")
    GRADIENT = ("parameter gradient", "one device's gradient of the model parameters, in the clear")
    CORRECT = ("correct predictions", "whether, or how often, a validation or test prediction was right")


class Direction(StrEnum):
    """Which way embeddings or gradients travel along the edges."""

    FORWARD = "forward"
    BACKWARD = "backward"


@dataclass(frozen=True, slots=True)
class Step:
    """When a message was sent.

    Attributes:
        round: training round, from 0.
        layer: layer of the model, from 0; -1 for what belongs to no layer.
        direction: forward or backward pass.
        evaluation: whether a forward pass serves to score the model and not to train it.
        part: which slice of rows that are too wide for one step, from 0.
        final: whether it is what parties are left with after the last round.
    """

    round: int
    layer: int = -1
    direction: Direction = Direction.FORWARD
    evaluation: bool = False
    part: int = 0
    final: bool = False
