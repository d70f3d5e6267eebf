#include "evenkeel/base/assertions.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace evenkeel::assertions {

struct ValueText {
  [[nodiscard]] static std::string format_value(const Value& value) {
    switch (value.kind_) {
      case Value::Kind::whole:
        return std::to_string(value.whole_);
      case Value::Kind::natural:
        return std::to_string(static_cast<std::uint64_t>(value.whole_));
      case Value::Kind::truth:
        return value.whole_ != 0 ? "true" : "false";
      case Value::Kind::floating:
        return format_shortest(value.floating_);
      case Value::Kind::text:
        return "'" + std::string(value.text_) + "'";
    }
    return {};
  }

 private:
  [[nodiscard]] static std::string format_shortest(double value) {
    std::array<char, 32> digits{};
    return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
  }
};

namespace {

/// Removes the first of `names`, which are separated by commas outside of brackets, and returns it.
std::string_view pop_first_name(std::string_view& names) {
  std::size_t end = 0;
  for (int depth = 0; end < names.size() && (depth > 0 || names[end] != ','); ++end) {
    if (std::string_view("([{").find(names[end]) != std::string_view::npos) ++depth;
    if (std::string_view(")]}").find(names[end]) != std::string_view::npos) --depth;
  }
  const std::string_view name = names.substr(0, end);
  names.remove_prefix(end < names.size() ? end + 1 : end);
  while (names.starts_with(' ')) names.remove_prefix(1);
  return name;
}

std::string values_text(std::string_view names, std::initializer_list<Value> values) {
  std::string text;
  for (const Value& value : values) {
    text += text.empty() ? " (" : ", ";
    text.append(pop_first_name(names)).append(" = ").append(ValueText::format_value(value));
  }
  return text.empty() ? text : text + ")";
}

}  // namespace

void abort_with(const Violation& violation, std::initializer_list<Value> values) noexcept {
  std::string line = violation.kind;
  line.append(" violated: ").append(violation.condition).append(values_text(violation.names, values));
  line.append(" at ").append(violation.file).append(":").append(std::to_string(violation.line));
  line.append(" in ").append(violation.function).append("\n");
  std::fputs(line.c_str(), stderr);
  std::abort();
}

}  // namespace evenkeel::assertions
