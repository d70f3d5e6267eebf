#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/ledger.hpp"

namespace evenkeel {

/// Convert a ledger's totals, tickets and events to text for a store, and back. The parsers throw an
/// InputError that describes what is invalid. Totals are stored with every commit; tickets are stored
/// separately, so they are written only when they change.
[[nodiscard]] std::string serialize_totals(const stream::Totals& totals);
[[nodiscard]] stream::Totals parse_totals(const std::string& text);
[[nodiscard]] std::string serialize_tickets(std::span<const stream::OpenTickets> tickets);
[[nodiscard]] std::vector<stream::OpenTickets> parse_tickets(const std::string& text);
[[nodiscard]] std::string serialize_event(const stream::Event& event);
[[nodiscard]] stream::Event parse_serialized_event(std::string_view text);
/// Parses the number of groups per step of a job. Throws InputError unless it is at least one.
[[nodiscard]] std::int64_t parse_group_count(std::string_view text);

}  // namespace evenkeel
