#include "evenkeel/base/assertions.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/hash.hpp"

namespace evenkeel::assertions {

struct ValueText {
  [[nodiscard]] static std::string of(const Value& value) {
    switch (value.kind_) {
      case Value::Kind::whole:
        return std::to_string(value.whole_);
      case Value::Kind::natural:
        return std::to_string(static_cast<std::uint64_t>(value.whole_));
      case Value::Kind::truth:
        return value.whole_ != 0 ? "true" : "false";
      case Value::Kind::floating:
        return shortest(value.floating_);
      case Value::Kind::text:
        return "'" + std::string(value.text_) + "'";
    }
    return {};
  }

 private:
  [[nodiscard]] static std::string shortest(double value) {
    std::array<char, 32> digits{};
    return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
  }
};

namespace {

/// Takes the first of `names` away, which commas outside of brackets separate.
std::string_view take_name(std::string_view& names) {
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

/// The root of the source tree, as this file's own path tells it. Only its length and its hash, since the
/// text would be in every program that links the library.
constexpr std::size_t root_size =
    std::string_view(__FILE__).size() - std::string_view("src/base/assertions.cpp").size();
constexpr std::uint64_t root_hash = fnv1a_64(std::string_view(__FILE__).substr(0, root_size));

/// A source's path below that root.
std::string_view below_root(std::string_view file) {
  const bool below = file.size() > root_size && fnv1a_64(file.substr(0, root_size)) == root_hash;
  return below ? file.substr(root_size) : file;
}

std::string values_text(std::string_view names, std::initializer_list<Value> values) {
  std::string text;
  for (const Value& value : values) {
    text += text.empty() ? " (" : ", ";
    text.append(take_name(names)).append(" = ").append(ValueText::of(value));
  }
  return text.empty() ? text : text + ")";
}

}  // namespace

void end_of_process(const Violation& violation, std::initializer_list<Value> values) noexcept {
  std::string line = violation.kind;
  line.append(" violated: ").append(violation.condition).append(values_text(violation.names, values));
  line.append(" at ").append(below_root(violation.file)).append(":").append(std::to_string(violation.line));
  line.append(" in ").append(violation.function).append("\n");
  std::fputs(line.c_str(), stderr);
  std::abort();
}

}  // namespace evenkeel::assertions
