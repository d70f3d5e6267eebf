#include "job/output/state_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  const InputFile file(path);
  // Read one byte more than a state may have, to detect larger files.
  const auto most = static_cast<std::int64_t>(ServiceState::max_bytes) + 1;
  std::string text(static_cast<std::size_t>(std::min(file.size(), most)), '\0');
  file.read(text, 0);
  return text;
}

}  // namespace

StateFolder::StateFolder(fs::path folder, const RunIdentity& run) : folder_(std::move(folder)) {
  std::error_code failure;
  fs::create_directories(folder_, failure);
  if (failure) {
    throw IoError(folder_.string(), "cannot create the folder of --state: " + failure.message(),
                  "Give a folder that rank 0 may write to");
  }
  if (auto lock = RunLock::try_acquire(folder_, run)) {
    lock_.emplace(std::move(*lock));
    remove_leftovers();
    return;
  }
  const std::optional<RunIdentity> holder = read_lock_identity(folder_);
  throw IoError(
      folder_.string(),
      "is in use: another run keeps its state there" +
          (holder ? fmt::format(" (started {} on {}, process {})", holder->started, holder->host, holder->pid)
                  : std::string()),
      "Wait until it has ended, or give --state another folder");
}

// Removes leftovers of interrupted writes. While the lock is held, no other process writes here.
void StateFolder::remove_leftovers() const {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    const bool is_temporary = name.starts_with(std::string(file_name) + ".tmp-") ||
                              name.starts_with(std::string(previous_name) + ".tmp-");
    std::error_code ignored;
    if (is_temporary && entry.is_regular_file(ignored)) fs::remove(entry.path(), ignored);
  }
}

std::optional<ServiceState> StateFolder::read() const {
  if (!is_name_taken(folder_ / file_name)) return std::nullopt;
  try {
    return read_state(folder_ / file_name);
  } catch (const InputError& error) {
    ErrorReport report = error.report();
    if (is_name_taken(folder_ / previous_name)) {
      report.hint = fmt::format("The previous state is in {}: rename it to {} to resume from there",
                                (folder_ / previous_name).string(), file_name);
    }
    throw InputError(std::move(report));
  }
}

void StateFolder::write(const ServiceState& state) {
  std::string text = to_text(state);
  const fs::path path = folder_ / file_name;
  if (last_text_.empty() && is_name_taken(path)) last_text_ = read_text(path);
  if (!last_text_.empty()) write_text_file_durably(folder_ / previous_name, last_text_);
  write_text_file_durably(path, text);
  last_text_ = std::move(text);
}

ServiceState read_state(const fs::path& file) {
  return parse_state(read_text(file), file.string());
}

}  // namespace evenkeel
