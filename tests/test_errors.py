"""Errors: their codes, and the form of their texts."""

import ast
import doctest
from pathlib import Path

import pytest

from fgl_secure import errors
from fgl_secure.errors import FglSecureError, InputError, MalformedMessageError, TooManyErrors, UnknownNameError

ROOT = Path(__file__).parents[1]
SOURCES = [path for folder in ("fgl_secure", "protocols", "attacks") for path in (ROOT / folder).rglob("*.py")]
VAGUE = ("something went wrong", "invalid argument", "bad input", "unexpected error")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("seed must be an integer; found 'a'"), "input:seed"),
        (InputError("client 3: numbers under 'w' must be finite"), "input:numbers under 'w'"),
        (UnknownNameError("scheme", "magic", ("plaintext", "secmp")), "unknown-name:scheme"),
        (MalformedMessageError("message is cut"), "malformed-message"),
        (TooManyErrors("shares must agree; 3 don't"), "too-many-errors:shares"),
        (FglSecureError(), "fgl-secure"),
    ],
)
def test_a_code_is_the_kind_and_the_argument(error: FglSecureError, code: str) -> None:
    """Values, rules and remedies are not in it."""
    assert error.code == code


def test_codes_tell_kinds_apart() -> None:
    """Each class of errors has a kind of its own."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, FglSecureError)]
    made = [FglSecureError.code.fget(kind.__new__(kind)) for kind in kinds]  # type: ignore[attr-defined]  # a property
    assert len(set(made)) == len(kinds) > 10


def test_examples_are_right() -> None:
    assert doctest.testmod(errors).failed == 0


def test_texts_are_single_lines_that_say_something() -> None:
    """Literal texts of raised errors: no line breaks, no full stop at the end, no empty phrases."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args):
                continue
            text = node.exc.args[0]
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                assert "\n" not in text.value, (path, text.value)
                assert not text.value.endswith("."), (path, text.value)
                assert not any(phrase in text.value.casefold() for phrase in VAGUE), (path, text.value)
