#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "evenkeel/base/error.hpp"

namespace evenkeel::python {

/// A value of an enumeration and the word that Python has for it, which is the configuration's.
template <typename Enum>
struct Word {
  Enum value;
  std::string_view word;
};

/// The value of a word. Throws InputError that lists the words there are.
template <typename Enum, std::size_t Size>
[[nodiscard]] Enum value_of(const std::array<Word<Enum>, Size>& words, std::string_view word,
                            const std::string& name) {
  std::string known;
  for (const Word<Enum>& each : words) {
    if (each.word == word) return each.value;
    known += (known.empty() ? "" : ", ") + std::string(each.word);
  }
  throw InputError(name, "is '" + std::string(word) + "'; it can be " + known);
}

/// The word of a value. Precondition: it has one.
template <typename Enum, std::size_t Size>
[[nodiscard]] std::string_view word_of(const std::array<Word<Enum>, Size>& words, Enum value) {
  for (const Word<Enum>& each : words) {
    if (each.value == value) return each.word;
  }
  return "?";
}

}  // namespace evenkeel::python
