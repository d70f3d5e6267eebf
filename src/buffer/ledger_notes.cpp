#include "buffer/ledger_notes.hpp"

#include <nlohmann/json.hpp>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using nlohmann::json;

json json_of(const stream::Amount& amount) {
  return {amount.samples, amount.prompt, amount.response};
}

stream::Amount amount_of(const json& list) {
  return {list.at(0), list.at(1), list.at(2)};
}

}  // namespace

std::string text_of_totals(const stream::Totals& totals) {
  json out{
      {"last_event", totals.last_event}, {"version", totals.version},          {"ended", totals.ended},
      {"duplicates", totals.duplicates}, {"trained", json_of(totals.trained)}, {"dropped", json::array()},
      {"tickets", json::array()}};
  if (totals.trained_step) out["trained_step"] = *totals.trained_step;
  for (const stream::Amount& amount : totals.dropped) out["dropped"].push_back(json_of(amount));
  for (const stream::OpenTickets& open : totals.tickets)
    out["tickets"].push_back(json::array({open.version, open.groups}));
  for (const auto& [behind, samples] : totals.staleness)
    out["staleness"].push_back(json::array({behind, samples}));
  return out.dump();
}

stream::Totals totals_of(const std::string& text) {
  try {
    const json in = json::parse(text);
    stream::Totals totals{
        in.at("last_event"), in.at("version"), in.at("ended"), in.at("duplicates"), {}, {}, {}, {}};
    if (in.contains("trained_step")) totals.trained_step = in["trained_step"].get<std::int64_t>();
    totals.trained = amount_of(in.at("trained"));
    for (std::size_t i = 0; i < totals.dropped.size(); ++i)
      totals.dropped[i] = amount_of(in.at("dropped").at(i));
    for (const json& open : in.at("tickets")) totals.tickets.push_back({open.at(0), open.at(1)});
    // Not in stores of earlier versions.
    for (const json& behind : in.value("staleness", json::array()))
      totals.staleness[behind.at(0).get<std::int64_t>()] = behind.at(1);
    return totals;
  } catch (const json::exception& error) {
    throw InputError("totals", std::string("cannot be read: ") + error.what());
  }
}

std::string text_of_event(const stream::Event& event) {
  std::string text;
  json::to_cbor(stream::to_json(event), text);
  return text;
}

// Without exceptions nlohmann::json would throw all the same for arrays of more values than can be.
stream::Event event_of_text(std::string_view text) {
  json event;
  try {
    event = json::from_cbor(text);
  } catch (const json::exception& error) {
    throw InputError("event", std::string("is no CBOR: ") + error.what());
  }
  return stream::event_of(event);
}

}  // namespace evenkeel
