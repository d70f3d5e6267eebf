// Frames of values and the other requests of a store: accepted values are returned as they were sent.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "buffer/store/store.hpp"
#include "buffer/values/received_values.hpp"
#include "buffer/values/value_store.hpp"
#include "fuzz/target.hpp"

namespace evenkeel::fuzz {
namespace {

constexpr std::int64_t max_bytes = 1 << 20;

/// Puts a frame, and asks for all of it.
void put_and_get(ValueStore& store, std::string_view frame) {
  ReceivedValues received(max_bytes);
  for (std::string_view left = frame; !left.empty();) {
    const std::span<char> receive_buffer = received.receive_buffer();
    const std::string_view part = left.substr(0, receive_buffer.size());
    std::ranges::copy(part, receive_buffer.begin());
    received.mark_received(std::ssize(part));
    left.remove_prefix(part.size());
  }
  received.require_complete();
  store.put(received);
  ValueQuery query{received.head().indexes, {}};
  for (const FrameHead::Field& field : received.head().fields) query.fields.push_back({field.name});
  std::string values;
  store.get(query).for_each_run([&](std::string_view run) {
    values += run;
    return true;
  });
  require(frame.ends_with(values) && std::ssize(values) == received.bytes_of_values(),
          "values are as they were sent");
}

}  // namespace

void run(Bytes input) {
  const std::string text = text_of(input);
  ValueStore store(make_memory_store(max_bytes));
  if (text.starts_with("{\"all") || text.starts_with("{\"clear")) {
    static_cast<void>(parse_selection(text));
  } else if (text.starts_with('{')) {
    static_cast<void>(parse_query(text));
  } else {
    put_and_get(store, text);
  }
}

}  // namespace evenkeel::fuzz
