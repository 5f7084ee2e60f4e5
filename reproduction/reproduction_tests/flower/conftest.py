"""What the toolkit's tests of Flower set up, here too."""

from tests.flower.conftest import _states, _task_identity, pytest_pycollect_makemodule

__all__ = ["_states", "_task_identity", "pytest_pycollect_makemodule"]
