"""The extension module: C++ as it is. Its names are private; import them from evenkeel and its modules."""

from typing import NoReturn

__version__: str

def raise_error(kind: str, where: str, message: str, hint: str = "") -> NoReturn: ...
