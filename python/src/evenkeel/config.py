"""The configuration: the keys of the YAML file, from a file, a text, dicts or keywords."""

from __future__ import annotations

import json
import operator
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Union

from evenkeel import _core

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")

ConfigLike = Union["Config", Mapping[str, Any], str, "os.PathLike[str]", None]


class Config:
    """A job's configuration, defaults filled in. It does not change once made.

    ``base`` is another Config, a mapping of sections, or the path of a YAML file; ``sections`` are sections by keyword
    and change what it says. Keys and values are those of the file (docs/configuration.md), so that

        Config({"mesh": {"dp": 8}}, micro_batch={"max_tokens": 16384, "count": "fastest"})

    is the file ``mesh: {dp: 8}`` and ``micro_batch: {max_tokens: 16384, count: fastest}``. Raises ConfigError that names
    the key for the first thing that is wrong, IoError for a file that cannot be read.
    """

    __slots__ = ("_core",)

    def __init__(self, base: ConfigLike = None, /, **sections: Any) -> None:
        texts = [*_texts_of(base), (_yaml_of(sections), "")]
        self._core = _core.parse_config([text for text in texts if text[0] != "{}"], [])

    @classmethod
    def load(cls, path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Config:
        """Reads a YAML file, then applies overrides in order, each ``section.key=value`` (``--set`` of the program)."""
        return cls._of(_core.load_config(os.fspath(path), list(overrides)))

    @classmethod
    def parse(cls, yaml: str, name: str = "text", overrides: Iterable[str] = ()) -> Config:
        """The same from YAML text; ``name`` stands for the file in messages."""
        return cls._of(_core.parse_config([(yaml, name)], list(overrides)))

    @classmethod
    def of(cls, config: ConfigLike, /, **sections: Any) -> Config:
        """``config`` itself where it is a Config and no sections change it, else a new one."""
        return config if isinstance(config, Config) and not sections else cls(config, **sections)

    @classmethod
    def _of(cls, core: Any) -> Config:
        config = cls.__new__(cls)
        config._core = core
        return config

    def to_yaml(self) -> str:
        """The configuration as a YAML file, one line a key; parsing it gives an equal one."""
        return self._core.to_yaml()

    def settings(self) -> dict[str, Any]:
        """Every key and its value, such as ``{"micro_batch.max_tokens": 8192}``: numbers and truth values as such, all else as
        its YAML text."""
        return {key: _value_of(text) for key, text in self._core.settings().items()}

    @property
    def profiles(self) -> list[str]:
        """The names of its profiles."""
        return self._core.profiles

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._core == other._core

    def __repr__(self) -> str:
        defaults = Config()._core.settings()
        changed = [f"{key}={value}" for key, value in self._core.settings().items() if defaults.get(key) != value]
        return f"Config({', '.join(changed)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Config.parse, (self.to_yaml(), "pickled configuration")


def _value_of(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _texts_of(base: ConfigLike) -> list[tuple[str, str]]:
    """What the C++ side reads: YAML and the name that messages have for it."""
    if base is None:
        return []
    if isinstance(base, Config):
        return [(base.to_yaml(), "base")]
    if isinstance(base, Mapping):
        return [(_yaml_of(base), "")]
    if isinstance(base, (str, os.PathLike)):
        return [(Config.load(base).to_yaml(), "base")]
    raise TypeError(f"a configuration is a Config, a mapping or the path of a file, not a {type(base).__name__}")


def _yaml_of(sections: Mapping[str, Any]) -> str:
    """JSON, which is YAML."""
    return json.dumps(sections, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """What JSON does not know: NumPy's numbers, paths, and mappings and sequences of any kind."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{value!r} is no value of a configuration") from None
