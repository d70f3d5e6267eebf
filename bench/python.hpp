#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace evenkeel::bench {

/// What a Python script answered, or why there is no answer.
struct PythonAnswer {
  nlohmann::json value;  ///< null without an answer
  std::string problem;   ///< empty with one
};

/// Runs `script` with the interpreter `program`, which reads JSON from the file named by its first argument
/// and writes JSON to the second. Anything that goes wrong (no interpreter, a module that is missing) is a
/// problem that is told, not an error. `script_text` is the source itself; it is written to a temporary
/// folder.
[[nodiscard]] PythonAnswer run_python(const std::string& program, const std::string& script_text,
                                      const nlohmann::json& input);

}  // namespace evenkeel::bench
