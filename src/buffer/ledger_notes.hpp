#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stream/ledger.hpp"

namespace evenkeel {

/// A ledger's totals and events for a store, and back. What reads throws InputError that says what is wrong.
[[nodiscard]] std::string text_of_totals(const stream::Totals& totals);
[[nodiscard]] stream::Totals totals_of(const std::string& text);
[[nodiscard]] std::string text_of_event(const stream::Event& event);
[[nodiscard]] stream::Event event_of_text(std::string_view text);
/// How many groups a job's step has, at least one.
[[nodiscard]] std::int64_t groups_of_text(std::string_view text);

}  // namespace evenkeel
