#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/printable.hpp"

namespace evenkeel::cli {

/// Lines of a name and a value, one below the other, as `inspect` shows them.
class LabelledLines {
 public:
  void line(std::string_view name, const std::string& value) {
    text_ += fmt::format("  {:<14} {}\n", name, printable(value));
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace evenkeel::cli
