#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/ledger.hpp"

namespace evenkeel {

/// A ledger's totals, tickets and events for a store, and back. What reads throws InputError that says what
/// is wrong. Totals are stored with every commit, and so their tickets are stored apart, when they change.
[[nodiscard]] std::string text_of_totals(const stream::Totals& totals);
[[nodiscard]] stream::Totals totals_of(const std::string& text);
[[nodiscard]] std::string text_of_tickets(std::span<const stream::OpenTickets> tickets);
[[nodiscard]] std::vector<stream::OpenTickets> tickets_of(const std::string& text);
[[nodiscard]] std::string text_of_event(const stream::Event& event);
[[nodiscard]] stream::Event event_of_text(std::string_view text);
/// How many groups a job's step has, at least one.
[[nodiscard]] std::int64_t groups_of_text(std::string_view text);

}  // namespace evenkeel
