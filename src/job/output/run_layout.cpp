#include "job/output/run_layout.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <system_error>
#include <vector>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

struct NameFormat {
  std::string_view prefix;
  std::size_t digits;
};

constexpr NameFormat step_folder{"step-", 6};
constexpr NameFormat micro_batch{"mb-", 5};
/// Levels of folders in a step's dump. The first list is for places in a grid, the second for groups of
/// different sizes.
constexpr std::array levels_of_a_grid{NameFormat{"dp-", 3}, NameFormat{"cp-", 3}, NameFormat{"tp-", 3},
                                      NameFormat{"pp-", 3}};
constexpr std::array levels_of_groups{NameFormat{"data-", 3}, NameFormat{"tp-", 3}, NameFormat{"pp-", 3}};
constexpr std::string_view tensors = ".safetensors";

bool is_number(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Returns whether numbered_name() can have made this name. It may have more digits than `form` requires only
/// if the number needs them.
bool matches(std::string_view name, const NameFormat& form) noexcept {
  if (!name.starts_with(form.prefix)) return false;
  const std::string_view digits = name.substr(form.prefix.size());
  return is_number(digits) && digits.size() >= form.digits &&
         (digits.size() == form.digits || digits.front() != '0');
}

/// Returns the number in a name that matches, or nullopt if it does not fit in 63 bits.
std::optional<std::int64_t> number_in(std::string_view name, const NameFormat& form) noexcept {
  std::int64_t number = 0;
  const std::string_view digits = name.substr(form.prefix.size());
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return failure == std::errc() ? std::optional(number) : std::nullopt;
}

bool matches_file(std::string_view name, const NameFormat& form) noexcept {
  return name.ends_with(tensors) && matches(name.substr(0, name.size() - tensors.size()), form);
}

/// Removes the suffix that AtomicFile adds to temporary names: returns NAME for NAME.tmp-PID-ATTEMPT. Returns
/// any other name unchanged.
std::string_view strip_temporary_ending(std::string_view name) noexcept {
  const std::size_t ending = name.rfind(".tmp-");
  if (ending == std::string_view::npos) return name;
  const std::string_view numbers = name.substr(ending + 5);
  const std::size_t dash = numbers.find('-');
  const bool temporary = dash != std::string_view::npos && is_number(numbers.substr(0, dash)) &&
                         is_number(numbers.substr(dash + 1));
  return temporary ? name.substr(0, ending) : name;
}

bool is_file_of_report(std::string_view name) noexcept {
  return name == "report.txt" || name == "report.json" || name == "report.html" ||
         name == RunLayout::metrics_name;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure))
    names.push_back(entry->path().filename().string());
  if (failure) throw IoError(folder.string(), "cannot be read: " + failure.message());
  std::ranges::sort(names);
  return names;
}

class Walk {
 public:
  Walk(const RunLayout& layout, const std::function<bool(const RunEntry&)>& visit)
      : layout_(layout), visit_(visit) {}

  bool visit_all(const fs::path& folder) {
    if (!visit_steps(folder) || !visit_single_files(folder)) return false;
    return std::ranges::all_of(layout_.profiles, [&](const std::string& profile) {
      return visit_folder(folder / profile, [&] { return visit_steps(folder / profile); });
    });
  }

 private:
  [[nodiscard]] bool has(RunOutput output) const { return layout_.outputs.contains(output); }

  bool visit_steps(const fs::path& folder) {
    if (!has(RunOutput::dump) && !has(RunOutput::results)) return true;
    return std::ranges::all_of(names_in(folder), [&](const std::string& name) {
      const std::string_view whole = strip_temporary_ending(name);
      const bool is_dump = has(RunOutput::dump) && matches(name, step_folder);
      if (!is_dump && !(has(RunOutput::results) && matches_file(whole, step_folder))) return true;
      step_ = number_in(whole, step_folder);
      const bool should_continue =
          is_dump ? visit_folder(folder / name, [&] { return visit_dump(folder / name); })
                  : visit_file(folder / name);
      step_.reset();
      return should_continue;
    });
  }

  /// Visits the contents of a step's folder.
  bool visit_dump(const fs::path& folder) {
    return visit_levels(folder, levels_of_a_grid) && visit_levels(folder, levels_of_groups);
  }

  /// Visits the contents of a folder of a dump. `levels` contains the name format of this folder's
  /// subfolders, and then of each level below them.
  bool visit_levels(const fs::path& folder, std::span<const NameFormat> levels) {
    return std::ranges::all_of(names_in(folder), [&](const std::string& name) {
      const fs::path path = folder / name;
      if (levels.empty()) return !matches_file(strip_temporary_ending(name), micro_batch) || visit_file(path);
      return !matches(name, levels.front()) ||
             visit_folder(path, [&] { return visit_levels(path, levels.subspan(1)); });
    });
  }

  /// Visits the files of the report and the trace, and leftovers of interrupted writes of the marker.
  bool visit_single_files(const fs::path& folder) {
    return std::ranges::all_of(names_in(folder), [&](const std::string& name) {
      const std::string_view whole = strip_temporary_ending(name);
      const bool of_report = has(RunOutput::report) && is_file_of_report(whole);
      const bool of_trace = has(RunOutput::trace) && whole == "trace.json";
      const bool of_marker = whole == RunLayout::marker_name && whole != name;
      return (!of_report && !of_trace && !of_marker) || visit_file(folder / name);
    });
  }

  template <typename Contents>
  bool visit_folder(const fs::path& path, const Contents& contents) {
    const fs::file_status status = fs::symlink_status(path);
    if (!fs::exists(status)) return true;  // it was removed after it was listed
    if (!fs::is_directory(status)) return visit_({path, RunEntry::Kind::foreign, step_});
    return contents() && visit_({path, RunEntry::Kind::folder, step_});
  }

  [[nodiscard]] bool visit_file(const fs::path& path) {
    const fs::file_status status = fs::symlink_status(path);
    if (!fs::exists(status)) return true;  // it was removed after it was listed
    if (!fs::is_regular_file(status)) return visit_({path, RunEntry::Kind::foreign, step_});
    const std::string name = path.filename().string();
    const bool whole = strip_temporary_ending(name).size() == name.size();
    return visit_({path, whole ? RunEntry::Kind::file : RunEntry::Kind::temporary, step_});
  }

  const RunLayout& layout_;
  const std::function<bool(const RunEntry&)>& visit_;
  std::optional<std::int64_t> step_{};  // number of the step whose files are being visited; otherwise nullopt
};

}  // namespace

std::string_view name_of(RunOutput output) noexcept {
  constexpr std::array<std::string_view, 4> names{"dump", "results", "report", "trace"};
  return names[static_cast<std::size_t>(output)];
}

bool visit_run_entries(const fs::path& folder, const RunLayout& layout,
                       const std::function<bool(const RunEntry&)>& visit) {
  return Walk(layout, visit).visit_all(folder);
}

bool is_step_folder(std::string_view name) noexcept {
  return matches(name, step_folder);
}

}  // namespace evenkeel
