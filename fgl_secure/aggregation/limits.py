"""How much a party reads of what others send, checked before anything is made of it: short messages stay cheap."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fgl_secure.aggregation.arguments import integer_of
from fgl_secure.errors import InputError, MalformedMessageError


@dataclass(frozen=True, slots=True)
class Limits:
    """What a party of an aggregation accepts at most; each party has its own, and they need not agree.

    Attributes:
        clients: of a round. Along a complete graph, or with coded masks, a client works through a table of
            clients^2 entries, so that the number costs memory before anybody has sent a key.
        entries: numbers in all tensors of a mapping together.
        tensors: in a mapping.
        depth: keys in the path of a tensor.
        path_bytes: of one path, its keys in UTF-8 joined by dots.
        layout_bytes: of a layout, and of ranges by name, as they travel.
        message_bytes: of a request or an answer.
        batches: of machines' messages in one request or answer.

    Raises:
        InputError: a limit below 1.
    """

    clients: int = 2**11
    entries: int = 2**32
    tensors: int = 2**14
    depth: int = 32
    path_bytes: int = 2**10
    layout_bytes: int = 2**21
    message_bytes: int = 2**31
    batches: int = 16

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, integer_of(getattr(self, one.name), one.name))
            if getattr(self, one.name) < 1:
                raise InputError(f"{one.name} must be at least 1; found {getattr(self, one.name)}")

    def check_clients(self, clients: int) -> None:
        """Raises `InputError` for more clients than these."""
        if clients > self.clients:
            raise InputError(f"clients must number at most {self.clients:,}, this party's limit; found {clients:,}")

    def check_message(self, data: bytes) -> None:
        """Raises `MalformedMessageError` for more bytes than a message may have."""
        _check("message", len(data), self.message_bytes, "bytes")

    def check_layout(self, data: bytes) -> None:
        """Raises `MalformedMessageError` for more bytes than layouts, or ranges by name, may have."""
        _check("layout", len(data), self.layout_bytes, "bytes")

    def check_path(self, path: list[str]) -> None:
        """Raises `MalformedMessageError` for more keys, or longer ones, than the path of a tensor may have."""
        _check("path of a tensor", len(path), self.depth, "keys")
        _check("path of a tensor", len(".".join(path).encode(errors="surrogatepass")), self.path_bytes, "bytes")

    def check_sizes(self, tensors: int, entries: int) -> None:
        """Raises `MalformedMessageError` for more tensors, or more numbers in all of them, than a mapping may have."""
        _check("layout", tensors, self.tensors, "tensors")
        _check("layout", entries, self.entries, "entries")


def _check(what: str, found: int, most: int, unit: str) -> None:
    if found > most:
        raise MalformedMessageError(f"{what} must have at most {most:,} {unit}, this party's limit; found {found:,}")


DEFAULT_LIMITS = Limits()
"""2,048 clients, 2^32 numbers in 16,384 tensors at a depth of 32."""
