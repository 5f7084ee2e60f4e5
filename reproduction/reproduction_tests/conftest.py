"""Settings and small examples of the toolkit's tests, which tests here may use too."""

from tests.conftest import _silence, data_root
from tests.methods.conftest import few_digits

__all__ = ["_silence", "data_root", "few_digits"]
