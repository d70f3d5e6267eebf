#include "report/metrics_log.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "evenkeel/base/error.hpp"
#include "report/run_report.hpp"

namespace evenkeel {
namespace {

std::int64_t step_in(const std::string& line, const std::filesystem::path& path, std::int64_t number) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  const auto step = json.is_object() ? json.find("step") : json.end();
  if (!json.is_object() || step == json.end() || !step->is_number_integer()) {
    throw InputError(path.string() + ":" + std::to_string(number), "does not describe a step",
                     "Restore the file, or move it away; metrics of earlier steps are then missing");
  }
  return step->get<std::int64_t>();
}

/// Returns the total size, in bytes, of the lines of steps before `first_step`. Steps are in ascending order
/// in the file.
std::int64_t bytes_before(const std::filesystem::path& path, std::int64_t first_step) {
  if (first_step == 0 || !std::filesystem::exists(path)) return 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw IoError(path.string(), "cannot be opened to find the lines of earlier steps",
                  "Make it readable, or move it away");
  std::int64_t bytes = 0;
  std::int64_t number = 1;
  // Stop at an incomplete last line, which ends at the end of the file without a line break.
  for (std::string line; std::getline(file, line) && !file.eof(); ++number) {
    if (step_in(line, path, number) >= first_step) break;
    bytes += static_cast<std::int64_t>(line.size()) + 1;
  }
  if (file.bad()) throw IoError(path.string(), "cannot be read");
  return bytes;
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& path, std::int64_t first_step)
    : file_(path, bytes_before(path, first_step)) {}

void MetricsLog::add(const StepFigures& figures) {
  file_.append(to_json(figures).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace evenkeel
