// Records of a buffer's store: what is not damaged may still be anything.
#include <string>

#include "buffer/intake/received_samples.hpp"
#include "buffer/ledger_notes.hpp"
#include "buffer/store/record.hpp"
#include "fuzz/target.hpp"
#include "stream/ledger.hpp"

namespace evenkeel::fuzz {

/// The first byte says what is read.
void run(Bytes input) {
  if (input.empty()) return;
  const std::string text = text_of(input.subspan(1));
  switch (input.front() % 4) {
    case 0:
      static_cast<void>(record_content(RecordKind::event, 1, text, "store"));
      break;
    case 1: {
      const stream::Event event = event_of_text(text);
      require(event_of_text(text_of_event(event)) == event, "an event is read as it was written");
      stream::Ledger ledger{stream::StreamSettings{}};
      static_cast<void>(ledger.apply(event));
      break;
    }
    case 2: {
      const stream::Totals totals = totals_of(text);
      require(totals_of(text_of_totals(totals)) == totals, "totals are read as they were written");
      break;
    }
    default:
      static_cast<void>(schema_of(text));
  }
}

}  // namespace evenkeel::fuzz
