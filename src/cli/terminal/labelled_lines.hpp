#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/printable.hpp"
#include "base/text_layout.hpp"

namespace evenkeel::cli {

/// Lines of a name and a value, one below the other, as `inspect` shows them.
class LabelledLines {
 public:
  explicit LabelledLines(std::size_t width) : width_(width) {}

  void line(const std::string& name, const std::string& value) {
    constexpr std::size_t column = 17;
    text_ += labelled("  " + name, printable(value), column, width_);
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::size_t width_;
  std::string text_;
};

}  // namespace evenkeel::cli
