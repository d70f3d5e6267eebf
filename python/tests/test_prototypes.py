"""The generator of the C library's prototypes understands headers, and its output matches the library, tests and pages."""

import ctypes
import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

from evenkeel import _c, _prototypes

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "python" / "generate_prototypes.py"
HEADERS = ROOT / "include" / "evenkeel" / "c"

EXAMPLE = """
/* A header with
 * everything. int32_t not_a_declaration(void); */
#ifndef GUARD_H
#define GUARD_H
#include <stdint.h>
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif
enum {
  ONE = 1, /* a comment; with a semicolon */
  TWO = 2,
};
typedef struct handle handle;
typedef struct pair {
  const char* name;
  int64_t first, second;
  const void* data;
} pair;
typedef void (*on_event)(const char* text, void* context);
typedef struct calls {
  int32_t (*send)(void* to, const void* data, int64_t bytes);
  void (*close)(void* to);
} calls;
EVENKEEL_API const char* version(void);
EVENKEEL_API evenkeel_status make(const char* yaml, const char* const* texts, int64_t count, const pair* in, pair* out,
                                  double ratio, handle** made);
EVENKEEL_API evenkeel_status listen(on_event function, const calls* others, void* context);
EVENKEEL_API void destroy(handle* unused);
#ifdef __cplusplus
}
#endif
#endif
"""
BELOW = "typedef int32_t evenkeel_status;\nenum { ZERO = 0 };\nEVENKEEL_API int64_t count_of(const int64_t* values);\n"


def generate(folder, header, below=BELOW, of=("example.h",)):
    """Returns the module that the generator writes for headers."""
    (folder / "base.h").write_text(below)
    (folder / "example.h").write_text(header)
    headers = [folder / name for name in of]
    subprocess.run([sys.executable, GENERATOR, *headers, folder / "made.py"], check=True, capture_output=True, text=True)
    spec = importlib.util.spec_from_file_location("made", folder / "made.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_constants_and_structures_are_those_of_the_header(tmp_path):
    made = generate(tmp_path, EXAMPLE)
    assert (made.ZERO, made.ONE, made.TWO) == (0, 1, 2)
    assert made.pair._fields_ == [("name", ctypes.c_char_p), ("first", ctypes.c_int64), ("second", ctypes.c_int64),
                                  ("data", ctypes.c_void_p)]
    assert made.on_event._argtypes_ == (ctypes.c_char_p, ctypes.c_void_p) and made.on_event._restype_ is None
    (_, send), (_, close) = made.calls._fields_
    assert send._argtypes_ == (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64) and send._restype_ is ctypes.c_int32
    assert close._argtypes_ == (ctypes.c_void_p,) and close._restype_ is None


def test_functions_have_the_types_of_their_declarations(tmp_path):
    made = generate(tmp_path, EXAMPLE)
    pointer, structure = ctypes.c_void_p, ctypes.POINTER(made.pair)
    assert made.FUNCTIONS["example"] == {
        "count_of": (ctypes.c_int64, [pointer], False),
        "version": (ctypes.c_char_p, [], False),
        "make": (ctypes.c_int32, [ctypes.c_char_p, pointer, ctypes.c_int64, structure, structure, ctypes.c_double, pointer], True),
        "listen": (ctypes.c_int32, [made.on_event, ctypes.POINTER(made.calls), pointer], True),
        "destroy": (None, [pointer], False),
    }


def test_functions_are_listed_once_by_the_first_header_that_declares_them(tmp_path):
    made = generate(tmp_path, EXAMPLE, of=("base.h", "example.h"))
    assert list(made.FUNCTIONS) == ["base", "example"]
    assert list(made.FUNCTIONS["base"]) == ["count_of"] and list(made.FUNCTIONS["example"]) == ["version", "make", "listen", "destroy"]


@pytest.mark.parametrize("declaration", ["EVENKEEL_API long f(void);", "EVENKEEL_API void f(unknown* x);", "int g(void);",
                                         "enum { A = B };", "typedef struct s { int64_t x[2]; } s;", "int64_t x"])
def test_a_declaration_that_it_does_not_understand_is_an_error(tmp_path, declaration):
    with pytest.raises(subprocess.CalledProcessError) as failed:
        generate(tmp_path, declaration)
    assert "ValueError" in failed.value.stderr


def functions_declared_in(header):
    """Returns the functions of a header and of those that it includes."""
    text = re.sub(r"/\*.*?\*/", "", (HEADERS / header).read_text(), flags=re.DOTALL)
    below = [functions_declared_in(name) for name in re.findall(r'#include "evenkeel/c/(.*?)"', text)]
    return set(re.findall(r"EVENKEEL_API [^;]*?\b(evenkeel_\w+)\(", text)).union(*below)


DECLARED = functions_declared_in("evenkeel_mpi.h")


def test_every_function_of_the_libraries_has_a_prototype():
    assert set(_prototypes.FUNCTIONS["evenkeel"]) == functions_declared_in("evenkeel.h")
    assert set(_prototypes.FUNCTIONS["evenkeel_mpi"]) == DECLARED - functions_declared_in("evenkeel.h")
    for library, names in ((_c.lib, _prototypes.FUNCTIONS["evenkeel"]), (_c.service, _prototypes.FUNCTIONS["evenkeel_mpi"])):
        for name, (result, arguments, _) in names.items():
            function = getattr(library, name)
            assert function.restype is result and list(function.argtypes) == arguments, name


def test_every_function_of_the_libraries_is_tested_in_c_and_on_the_page():
    tests = "\n".join(file.read_text() for file in (ROOT / "tests" / "c").glob("*.?pp"))
    page = (ROOT / "docs" / "c-api.md").read_text()
    for name in sorted(DECLARED):
        assert re.search(rf"\b{name}\(", tests), f"tests/c calls {name} nowhere"
        assert re.search(rf"\b{name}\b", page), f"docs/c-api.md does not name {name}"


def test_every_function_of_the_libraries_is_called_by_python_or_not_needed_there():
    """Python parses all texts of a configuration in one call, and requests all fields in one call."""
    without = {"evenkeel_status_name", "evenkeel_config_parse", "evenkeel_samples_find_field", "evenkeel_step_num_micro_batches",
               "evenkeel_step_find_field", "evenkeel_service_context"}
    modules = "\n".join(file.read_text() for file in (ROOT / "python" / "src" / "evenkeel").rglob("*.py"))
    missing = {name for name in DECLARED - without if not re.search(rf"\b{name}\b", modules)}
    assert missing == set()
