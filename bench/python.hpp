#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace evenkeel::bench {

/// The answer of a Python script, or the reason why there is none.
struct PythonAnswer {
  nlohmann::json value;  ///< null without an answer
  std::string problem;   ///< empty with one
};

/// Runs `script` with the interpreter `program`. The script reads JSON from the file named by its first
/// argument and writes JSON to the second. If something goes wrong (no interpreter, a missing module), this
/// is reported as a problem and not as an error. `script_text` is the source itself, which is written to a
/// temporary folder.
[[nodiscard]] PythonAnswer run_python(const std::string& program, const std::string& script_text,
                                      const nlohmann::json& input);

}  // namespace evenkeel::bench
