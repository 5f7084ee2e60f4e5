"""Makes the known answers of field arithmetic and coding: `python tests/vectors/generate.py`, from any folder.

Everything comes from galois and python's own random numbers, nothing from the package under test. The tests never run
this: they read the files, which change only when someone runs it and commits what it wrote.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import galois
import numpy as np

PRIMES = (2, 5, 11, 101, 131071, 2**31 - 1, 2**61 - 1)
CODES = ((11, 1, 1, 4), (101, 2, 1, 6), (2**31 - 1, 1, 1, 2), (2**31 - 1, 3, 2, 9), (2**61 - 1, 2, 2, 7))
WORDS = ((11, 10, 4, 3), (13, 12, 6, 3), (13, 4, 2, 1), (101, 20, 8, 6), (2**31 - 1, 22, 10, 6))
"""Field, length n (a divisor of p - 1), dimension k and errors of a Reed-Solomon code."""

SOURCE = f"galois {galois.__version__}, tests/vectors/generate.py"


def plain(array: Any) -> Any:
    """Nested lists of python integers."""
    return [plain(row) for row in array] if np.ndim(array) else int(array)


def drawn(p: int, *shape: int) -> Any:
    """Random elements, the largest among them."""
    values = [random.choice((random.randrange(p), p - 1)) for _ in range(int(np.prod(shape)))]  # noqa: S311  # inputs, not masks
    return galois.GF(p)(np.array(values, dtype=object).reshape(shape).tolist())


def field_operations(p: int) -> dict[str, Any]:
    """Every operation on a few elements."""
    a, b, matrix, rows = drawn(p, 6), drawn(p, 6), drawn(p, 2, 3), drawn(p, 3, 4)
    b[b == 0] = 1
    answers = {"add": a + b, "subtract": a - b, "multiply": a * b, "negate": -a, "inverse_of_b": b**-1}
    operands = {"a": a, "b": b, "matrix": matrix, "rows": rows}
    products = {"combine": matrix @ rows, "dot": rows @ a[:4]}
    return {"p": p, **{name: plain(value) for name, value in {**operands, **answers, **products}.items()}}


def encoding(p: int, K: int, T: int, N: int) -> dict[str, Any]:
    """Shares as values of galois's Lagrange polynomial, and of the product of two of them, at default points."""
    GF, points = galois.GF(p), range(1, K + T + N + 1)
    betas, alphas = GF(list(points[: K + T])), GF(list(points[K + T :]))
    columns = [drawn(p, K + T) for _ in range(3)]
    polynomials = [galois.lagrange_poly(betas, column) for column in columns]
    square = polynomials[0] * polynomials[1]
    return {
        "p": p, "K": K, "T": T, "N": N,
        "blocks": plain(np.array([plain(column[:K]) for column in columns], dtype=object).T),
        "masks": plain(np.array([plain(column[K:]) for column in columns], dtype=object).T),
        "shares": plain(np.array([plain(poly(alphas)) for poly in polynomials], dtype=object).T),
        "product_shares": plain(square(alphas)),
        "product_blocks": plain(square(betas[:K])),
    }  # fmt: skip


def error_location(p: int, n: int, k: int, errors: int) -> dict[str, Any]:
    """A spoilt codeword, and where galois's Berlekamp-Massey decoder finds it wrong.

    A narrow-sense code's word is the values of a polynomial of degree below k at the powers of a primitive n-th root
    of unity, highest power first.
    """
    code = galois.ReedSolomon(n, k, field=galois.GF(p))
    word = code.encode(drawn(p, k))
    positions = sorted(random.sample(range(n), errors))
    for position in positions:
        word[position] += galois.GF(p)(random.randrange(1, p))  # noqa: S311  # an input, not a mask
    corrected, count = code.decode(word, output="codeword", errors=True)
    assert int(count) == errors
    points = [int(code.alpha**power) for power in range(n - 1, -1, -1)]
    wrong = np.flatnonzero(np.array(corrected != word))
    return {"p": p, "dimension": k, "max_errors": errors, "points": points, "values": plain(word),
            "wrong": plain(wrong), "corrected": plain(corrected)}  # fmt: skip


def write(name: str, cases: list[dict[str, Any]]) -> None:
    """One file, one case a line."""
    lines = ",\n    ".join(json.dumps(case) for case in cases)
    text = f'{{\n  "source": {json.dumps(SOURCE)},\n  "cases": [\n    {lines}\n  ]\n}}\n'
    (Path(__file__).parent / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    random.seed(20190416)
    write("field_operations", [field_operations(p) for p in PRIMES])
    write("encoding", [encoding(*code) for code in CODES])
    write("error_location", [error_location(*word) for word in WORDS])
