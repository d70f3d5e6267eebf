#include "cli/read_as_option.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/printable.hpp"
#include "evenkeel/batch/dtype.hpp"

namespace evenkeel::cli {
namespace {

constexpr std::array formats{LineFormat::rows, LineFormat::text, LineFormat::bytes, LineFormat::axes,
                             LineFormat::runs};

void read(const std::string& word, ToldFormats& told) {
  const std::size_t equals = word.rfind('=');
  const std::string name = word.substr(0, equals);
  if (equals == std::string::npos || name.empty())
    throw CLI::ValidationError("--read-as", fmt::format("'{}' is not NAME=FORMAT", printable(word)));
  const std::string format = word.substr(equals + 1);
  const auto found = std::ranges::find(formats, format, [](LineFormat f) { return name_of(f); });
  if (found == formats.end()) {
    std::vector<std::string_view> words;
    for (const LineFormat each : formats) words.push_back(name_of(each));
    throw CLI::ValidationError(
        "--read-as", fmt::format("'{}' is not one of {}", printable(format), fmt::join(words, ", ")));
  }
  if (!told.emplace(name, *found).second)
    throw CLI::ValidationError("--read-as", fmt::format("names '{}' twice", printable(name)));
}

}  // namespace

void add_read_as_option(CLI::App& command, ToldFormats& told) {
  command
      .add_option_function<std::vector<std::string>>(
          "--read-as",
          [&told](const std::vector<std::string>& words) {
            for (const std::string& word : words) read(word, told);
          },
          "How JSON Lines write fields: rows, text, bytes, axes or runs")
      ->type_name("NAME=FORMAT,...")
      ->delimiter(',')
      ->allow_extra_args(false);
}

}  // namespace evenkeel::cli
