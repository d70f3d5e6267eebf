#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel::config_detail {

/// The candidate nearest to a misspelt word, the first of equals; nothing when none is near enough to be
/// meant (a third of the word's letters, at least one).
[[nodiscard]] std::optional<std::string> nearest_word(std::string_view word,
                                                      std::span<const std::string> candidates);

/// The dotted key that is meant by `path`: nearest as a whole, or nearest in its last part, so that a key in
/// the wrong section is found too. Among equals a key of the same section wins, then the first.
[[nodiscard]] std::optional<std::string> nearest_key(std::string_view path,
                                                     std::span<const std::string> candidates);

/// The words as "a, b, c".
[[nodiscard]] std::string join(std::span<const std::string> words);

}  // namespace evenkeel::config_detail
