#include "cli/option_values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/text/parse_number.hpp"
#include "base/text/units.hpp"
#include "base/utf8.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/dtype.hpp"

namespace evenkeel::cli {
namespace {

std::string out_of_range_message(const std::string& text, const std::string& allowed) {
  return fmt::format("'{}' is out of range; allowed: {}", printable(text), allowed);
}

bool has_integer_syntax(const std::string& text) {
  const std::size_t digits = text.starts_with('-') ? 1 : 0;
  return text.size() > digits && std::all_of(text.begin() + static_cast<std::ptrdiff_t>(digits), text.end(),
                                             [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string not_an_integer_message(const std::string& text, const std::string& allowed) {
  return fmt::format("'{}' is not an integer; allowed: {}", printable(text), allowed);
}

template <typename Number>
CLI::Validator whole_number_validator(Number least, Number most, const std::string& allowed) {
  return {[=](const std::string& text) -> std::string {
            if (!has_integer_syntax(text)) return not_an_integer_message(text, allowed);
            const std::optional<Number> number = parse_as<Number>(text);
            if (number && *number >= least && *number <= most) return {};
            return out_of_range_message(text, allowed);
          },
          ""};
}

CLI::Validator decimal_number_validator(const std::function<bool(double)>& is_allowed,
                                        const std::string& allowed) {
  return {[=](const std::string& text) -> std::string {
            const std::optional<double> number = parse_as<double>(text);
            if (!number || !std::isfinite(*number))
              return fmt::format("'{}' is not a number; allowed: {}", printable(text), allowed);
            return is_allowed(*number) ? std::string() : out_of_range_message(text, allowed);
          },
          ""};
}

std::string check_and_lowercase(std::string& text, const std::vector<std::string>& words) {
  std::string small = text;
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::ranges::find(words, small) != words.end()) {
    text = small;
    return {};
  }
  return fmt::format("'{}' is not one of {}", printable(text), fmt::join(words, ", "));
}

std::string check_not_empty(const std::string& text) {
  return text.empty() ? "needs a value, but the value is empty. Check that shell variables in it are set"
                      : "";
}

std::string check_not_an_option(const std::string& text) {
  if (!text.starts_with("--")) return check_not_empty(text);
  return fmt::format("needs a value; '{}' looks like an option", printable(text));
}

namespace fs = std::filesystem;

constexpr std::array kinds{std::pair{"jsonl", SourceKind::jsonl},
                           std::pair{"safetensors", SourceKind::safetensors},
                           std::pair{"megatron", SourceKind::megatron},
                           std::pair{"lengths", SourceKind::lengths}, std::pair{"dump", SourceKind::dump}};

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const bool is_open = most == std::numeric_limits<std::int64_t>::max();
  return whole_number_validator(
      least, most, is_open ? fmt::format("{} to 2^63 - 1", least) : fmt::format("{} to {}", least, most));
}

CLI::Validator seed_number() {
  return whole_number_validator<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max(), "0 to 2^64 - 1");
}

CLI::Validator decimal_number() {
  return decimal_number_validator([](double) { return true; }, "any number");
}

CLI::Validator positive_number() {
  return decimal_number_validator([](double number) { return number > 0; }, "above 0");
}

CLI::Validator decimal_number(int most) {
  return decimal_number_validator([=](double number) { return number >= 0 && number <= most; },
                                  fmt::format("0 to {}", most));
}

CLI::Validator token_count_transform() {
  CLI::Validator validator("");
  validator.operation([](std::string& text) -> std::string {
    if (const auto tokens = parse_tokens(text)) text = std::to_string(*tokens);
    return {};
  });
  return validator;
}

CLI::Validator one_of(std::vector<std::string> words) {
  CLI::Validator validator("");
  validator.operation(
      [words = std::move(words)](std::string& text) { return check_and_lowercase(text, words); });
  return validator;
}

void reject_options_as_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      option->transform(CLI::Validator([](const std::string& text) { return check_not_empty(text); }, ""));
    } else if (option->get_items_expected_max() == 0) {
      option->disable_flag_override();
    } else {
      option->transform(
          CLI::Validator([](const std::string& text) { return check_not_an_option(text); }, ""));
    }
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    reject_options_as_values(*command);
}

namespace {

constexpr std::array line_formats{LineFormat::rows, LineFormat::text, LineFormat::bytes, LineFormat::axes,
                                  LineFormat::runs};

void parse_declared_format(const std::string& word, DeclaredFormats& declared) {
  const std::size_t equals = word.rfind('=');
  const std::string name = word.substr(0, equals);
  if (equals == std::string::npos || name.empty())
    throw CLI::ValidationError("--read-as", fmt::format("'{}' is not NAME=FORMAT", printable(word)));
  const std::string format = word.substr(equals + 1);
  const auto found = std::ranges::find(line_formats, format, [](LineFormat f) { return name_of(f); });
  if (found == line_formats.end()) {
    std::vector<std::string_view> words;
    for (const LineFormat each : line_formats) words.push_back(name_of(each));
    throw CLI::ValidationError(
        "--read-as", fmt::format("'{}' is not one of {}", printable(format), fmt::join(words, ", ")));
  }
  if (!declared.emplace(name, *found).second)
    throw CLI::ValidationError("--read-as", fmt::format("names '{}' twice", printable(name)));
}

}  // namespace

void add_read_as_option(CLI::App& command, DeclaredFormats& declared) {
  command
      .add_option_function<std::vector<std::string>>(
          "--read-as",
          [&declared](const std::vector<std::string>& words) {
            for (const std::string& word : words) parse_declared_format(word, declared);
          },
          "The formats of fields in JSON Lines: rows, text, bytes, axes or runs")
      ->type_name("NAME=FORMAT,...")
      ->delimiter(',')
      ->allow_extra_args(false);
}

std::vector<std::string> source_kind_words() {
  std::vector<std::string> words;
  for (const auto& entry : kinds) words.emplace_back(entry.first);
  return words;
}

std::string source_kind_word(SourceKind kind) {
  return std::ranges::find(kinds, kind, [](const auto& entry) { return entry.second; })->first;
}

SourceKind source_kind_of(const fs::path& path, const std::string& word) {
  if (!word.empty())
    return std::ranges::find(kinds, word, [](const auto& kind) { return std::string(kind.first); })->second;
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) return SourceKind::dump;
  fs::path name = path;
  if (name.extension() == ".gz" || name.extension() == ".zst") name.replace_extension();
  const std::string ending = name.extension().string();
  if (ending == ".jsonl") return SourceKind::jsonl;
  if (ending == ".safetensors") return SourceKind::safetensors;
  if (ending == ".idx" || ending == ".bin") return SourceKind::megatron;
  throw ConfigError(path.string(), "has a name that does not imply a format",
                    ending == ".csv" ? "A length table has no tokens; --from lengths generates synthetic ones"
                                     : fmt::format("Name the format with --from: one of {}",
                                                   fmt::join(source_kind_words(), ", ")));
}

}  // namespace evenkeel::cli
