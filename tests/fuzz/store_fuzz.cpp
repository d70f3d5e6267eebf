// The contents of a buffer's store: undamaged contents may still be arbitrary.
#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "buffer/buffer.hpp"
#include "buffer/intake/received_samples.hpp"
#include "buffer/ledger_notes.hpp"
#include "buffer/store/store.hpp"
#include "fuzz/target.hpp"
#include "stream/ledger.hpp"

namespace evenkeel::fuzz {
namespace {

/// Returns the next part of a text, and removes it and the following 0x1e from the text.
std::string next_part(std::string_view& text) {
  const std::size_t end = std::min(text.find('\x1e'), text.size());
  const std::string part(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

/// Resumes a buffer from notes and events, and reports its contents.
void go_on_with(std::string_view text) {
  StoreChange change;
  for (const char* const name : {"totals", "tickets", "schema", "formats", "settings", "groups_per_step"}) {
    if (std::string note = next_part(text); !note.empty()) change.notes[name] = std::move(note);
  }
  for (std::int64_t number = 1; !text.empty(); ++number) change.events.emplace_back(number, next_part(text));
  auto store = make_memory_store(1 << 20);
  store->commit(change);
  stream::StreamSettings settings;
  settings.group_size = 4;
  settings.max_staleness = 2;
  Buffer buffer(std::move(store), settings);
  static_cast<void>(buffer.status());
  static_cast<void>(buffer.wait_for_groups(0, 10, std::chrono::milliseconds{0}));
  static_cast<void>(buffer.untrained_steps(0));
}

}  // namespace

/// The first byte selects what is read.
void run(Bytes input) {
  if (input.empty()) return;
  const std::string text = text_of(input.subspan(1));
  switch (input.front() % 7) {
    case 0:
      static_cast<void>(record_content(RecordKind::event, 1, text, "store"));
      break;
    case 1: {
      const stream::Event event = parse_serialized_event(text);
      require(parse_serialized_event(serialize_event(event)) == event, "an event is read as it was written");
      stream::Ledger ledger{stream::StreamSettings{}};
      static_cast<void>(ledger.apply(event));
      break;
    }
    case 2: {
      const stream::Totals totals = parse_totals(text);
      require(parse_totals(serialize_totals(totals)) == totals, "totals are read as they were written");
      break;
    }
    case 3: {
      const JsonlSchema schema = parse_schema(text);
      require(parse_schema(serialize_schema(schema, parse_sample_form(text))).fields == schema.fields,
              "fields are read as they were written");
      break;
    }
    case 4: {
      const DeclaredFormats formats = parse_formats(text);
      require(parse_formats(serialize_formats(formats)) == formats, "formats are read as they were written");
      break;
    }
    case 5: {
      const std::vector<stream::OpenTickets> tickets = parse_tickets(text);
      require(parse_tickets(serialize_tickets(tickets)) == tickets, "tickets are read as they were written");
      break;
    }
    default:
      go_on_with(text);
  }
}

}  // namespace evenkeel::fuzz
