"""The configuration: the keys of the YAML file, read from a file, text, mappings or keyword arguments."""

from __future__ import annotations

import ctypes
import json
import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from evenkeel import _arrays, _c
from evenkeel._c import lib

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")

ConfigLike = Union["Config", Mapping[str, Any], str, "os.PathLike[str]", None]


class Config:
    """A job's configuration with defaults filled in. Immutable.

    ``base`` is another Config, a mapping of sections, or the path of a YAML file; ``sections`` are sections passed as
    keywords, which override it. Keys and values are those of the file (docs/configuration.md):

        Config({"mesh": {"dp": 8}}, micro_batch={"max_tokens": 16384, "count": "fastest"})

    equals the file ``mesh: {dp: 8}`` and ``micro_batch: {max_tokens: 16384, count: fastest}``. Raises a ConfigError that
    names the first invalid key, and IoError for a file that cannot be read."""

    __slots__ = ("_handle",)

    def __init__(self, base: ConfigLike = None, /, **sections: Any) -> None:
        texts = [*_texts_of(base), (_yaml_of(sections), "")]
        self._handle = _parse([text for text in texts if text[0] != "{}"])

    @classmethod
    def load(cls, path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Config:
        """Reads a YAML file, then applies overrides of the form ``section.key=value`` in order, like ``--set`` of the program."""
        return cls._of(_create(lib.evenkeel_config_load, os.fsencode(path), *_texts(list(overrides))))

    @classmethod
    def parse(cls, yaml: str, name: str = "text", overrides: Iterable[str] = ()) -> Config:
        """Like load(), but parses YAML text; messages use ``name`` as the file name."""
        return cls._of(_parse([(yaml, name)], list(overrides)))

    @classmethod
    def of(cls, config: ConfigLike, /, **sections: Any) -> Config:
        """Returns ``config`` itself if it is a Config and no sections change it, otherwise a new one."""
        return config if isinstance(config, Config) and not sections else cls(config, **sections)

    @classmethod
    def _of(cls, handle: _arrays.Handle) -> Config:
        config = cls.__new__(cls)
        config._handle = handle
        return config

    def to_yaml(self) -> str:
        """Returns the configuration as YAML with one line per key; parsing it gives an equal configuration."""
        return self._text(lib.evenkeel_config_to_yaml)

    def settings(self) -> dict[str, Any]:
        """Returns every key and its value, such as ``{"micro_batch.max_tokens": 8192}``: numbers and booleans as Python
        values, all other values as YAML text."""
        return {key: _value_of(text) for key, text in self._texts().items()}

    @property
    def profiles(self) -> list[str]:
        """The names of the profiles."""
        return list(dict.fromkeys(key.split(".")[1] for key in self._texts() if key.startswith("profiles.")))

    def _texts(self) -> dict[str, str]:
        """Returns every key and its value as YAML text."""
        pairs = (line.partition("=") for line in self._text(lib.evenkeel_config_settings).split("\n")[:-1])
        return {key: value for key, _, value in pairs}

    def _text(self, function: Any) -> str:
        pointer = ctypes.c_void_p()
        function(self._handle, ctypes.byref(pointer), None)
        try:
            return _c.text(ctypes.string_at(pointer))
        finally:
            lib.evenkeel_buffer_free(pointer)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and bool(lib.evenkeel_config_equal(self._handle, other._handle))

    def __repr__(self) -> str:
        defaults = Config()._texts()
        changed = [f"{key}={value}" for key, value in self._texts().items() if defaults.get(key) != value]
        return f"Config({', '.join(changed)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Config.parse, (self.to_yaml(), "pickled configuration")


def _texts(values: Sequence[str]) -> tuple[Any, int]:
    """Returns an array of texts for the library, and its length."""
    return (ctypes.c_char_p * len(values))(*map(_c.encoded, values)), len(values)


def _parse(named: list[tuple[str, str]], overrides: Sequence[str] = ()) -> _arrays.Handle:
    """Parses a configuration from named texts."""
    yamls, _ = _texts([yaml for yaml, _ in named])
    return _create(lib.evenkeel_config_parse_texts, yamls, *_texts([name for _, name in named]), *_texts(overrides))


def _create(function: Any, *arguments: Any) -> _arrays.Handle:
    pointer = ctypes.c_void_p()
    function(*arguments, ctypes.byref(pointer))
    return _arrays.Handle(pointer, lib.evenkeel_config_destroy)


def _value_of(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _texts_of(base: ConfigLike) -> list[tuple[str, str]]:
    """Returns YAML texts for the library, each with the name used for it in messages."""
    if base is None:
        return []
    if isinstance(base, Config):
        return [(base.to_yaml(), "base")]
    if isinstance(base, Mapping):
        return [(_yaml_of(base), "")]
    if isinstance(base, (str, os.PathLike)):
        return [(Config.load(base).to_yaml(), "base")]
    raise TypeError(f"a configuration is a Config, a mapping or the path of a file, not {type(base).__name__}")


def _yaml_of(sections: Mapping[str, Any]) -> str:
    """Returns JSON, which is valid YAML."""
    return json.dumps(sections, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Converts what JSON does not support: NumPy's numbers, paths, and mappings and sequences of any kind."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{value!r} cannot be the value of a configuration key. Pass a number, a boolean, a string, a path, a list or a "
                        "mapping") from None
