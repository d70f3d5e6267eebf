"""What the extension module has for the drop-in functions; _native.pyi says what it is."""

from evenkeel import _core

globals().update({name: thing for name, thing in vars(_core._drop_in).items() if not name.startswith("__")})
