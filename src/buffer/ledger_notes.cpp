#include "buffer/ledger_notes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/parse_number.hpp"
#include "evenkeel/base/error.hpp"
#include "stream/event.hpp"

namespace evenkeel {
namespace {

using nlohmann::json;

constexpr const char* damaged_hint = "Restore the store from a backup";

json json_of(const stream::Amount& amount) {
  return {amount.samples, amount.prompt, amount.response};
}

std::int64_t require_json_integer(const json& value) {
  return stream::require_integer(value, "totals");
}

/// Parses a count. Throws InputError if its absolute value exceeds 2^53, so that sums of counts cannot
/// overflow.
std::int64_t parse_count(const json& number) {
  const std::int64_t count = require_json_integer(number);
  constexpr std::int64_t most = std::int64_t{1} << 53;
  if (count > most || count < -most)
    throw InputError(
        "totals",
        "contain " + std::to_string(count) + "; absolute values must be at most " + std::to_string(most),
        damaged_hint);
  return count;
}

stream::Amount parse_amount(const json& list) {
  return {parse_count(list.at(0)), parse_count(list.at(1)), parse_count(list.at(2))};
}

}  // namespace

std::string serialize_totals(const stream::Totals& totals) {
  json out{{"last_event", totals.last_event},
           {"version", totals.version},
           {"ended", totals.ended},
           {"duplicates", totals.duplicates},
           {"trained", json_of(totals.trained)},
           {"dropped", json::array()},
           {"expired_tickets", totals.expired_tickets},
           {"has_version", totals.has_version}};
  if (totals.trained_step) out["trained_step"] = *totals.trained_step;
  for (const stream::Amount& amount : totals.dropped) out["dropped"].push_back(json_of(amount));
  for (const auto& [behind, samples] : totals.staleness)
    out["staleness"].push_back(json::array({behind, samples}));
  return out.dump();
}

stream::Totals parse_totals(const std::string& text) {
  try {
    const json in = json::parse(text);
    stream::Totals totals{parse_count(in.at("last_event")),
                          std::max<std::int64_t>(require_json_integer(in.at("version")), 0),
                          in.at("has_version"),
                          in.at("ended"),
                          parse_count(in.at("duplicates")),
                          {},
                          {},
                          {},
                          {},
                          parse_count(in.at("expired_tickets"))};
    if (in.contains("trained_step")) totals.trained_step = parse_count(in["trained_step"]);
    totals.trained = parse_amount(in.at("trained"));
    for (std::size_t i = 0; i < totals.dropped.size(); ++i)
      totals.dropped[i] = parse_amount(in.at("dropped").at(i));
    for (const json& behind : in.value("staleness", json::array()))
      totals.staleness[require_json_integer(behind.at(0))] = parse_count(behind.at(1));
    return totals;
  } catch (const json::exception& error) {
    throw InputError("totals", std::string("cannot be read: ") + error.what(), damaged_hint);
  }
}

std::string serialize_tickets(std::span<const stream::OpenTickets> tickets) {
  json out = json::array();
  for (const stream::OpenTickets& open : tickets)
    out.push_back(json::array({open.version, open.groups, open.granted_groups, open.granted, open.deadline,
                               open.holder, open.request}));
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<stream::OpenTickets> parse_tickets(const std::string& text) {
  try {
    std::vector<stream::OpenTickets> tickets;
    std::int64_t room = stream::max_tickets;
    for (const json& open : json::parse(text)) {
      const std::int64_t groups = std::min(parse_count(open.at(1)), room);
      if (groups <= 0) continue;
      room -= groups;
      tickets.push_back({require_json_integer(open.at(0)), groups, parse_count(open.at(2)),
                         parse_count(open.at(3)), parse_count(open.at(4)), open.at(5), open.at(6)});
    }
    return tickets;
  } catch (const json::exception& error) {
    throw InputError("tickets", std::string("cannot be read: ") + error.what(), damaged_hint);
  }
}

std::string serialize_event(const stream::Event& event) {
  std::string text;
  json::to_cbor(stream::to_json(event), text);
  return text;
}

// Catches exceptions instead of disabling them, because nlohmann::json throws for arrays of impossible length
// even if they are disabled.
stream::Event parse_serialized_event(std::string_view text) {
  json event;
  try {
    event = json::from_cbor(text);
  } catch (const json::exception& error) {
    throw InputError("event", std::string("is not valid CBOR: ") + error.what(), damaged_hint);
  }
  return stream::parse_event(event);
}

std::int64_t parse_group_count(std::string_view text) {
  const std::optional<std::int64_t> groups = parse_as<std::int64_t>(text);
  if (!groups || *groups < 1)
    throw InputError("groups of a step",
                     "are '" + std::string(text) + "', but must be a number of at least 1", damaged_hint);
  return *groups;
}

}  // namespace evenkeel
