"""What errors are about: checks of codes, for `pytest.raises(..., check=about("seed"))`."""

from collections.abc import Callable

from fgl_secure.errors import FglSecureError


def about(argument: str) -> Callable[[BaseException], bool]:
    """Return a check that an error's code names an argument, or ends with it where more words name which one.

    Raises:
        ValueError: no argument is given; every error would pass.
    """
    if not argument:
        raise ValueError("argument must name what the error is about; found none")

    def check(error: BaseException) -> bool:
        return isinstance(error, FglSecureError) and error.code.partition(":")[2].endswith(argument)

    return check
