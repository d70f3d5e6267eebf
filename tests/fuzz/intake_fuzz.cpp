// Bodies of requests to a buffer: packed or not, one after the other into the same buffer.
#include <algorithm>
#include <memory>
#include <string_view>

#include "buffer/buffer.hpp"
#include "buffer/intake/received_samples.hpp"
#include "buffer/store/store.hpp"
#include "fuzz/target.hpp"

namespace evenkeel::fuzz {
namespace {

constexpr std::int64_t most_bytes = 1 << 20;

void require_balance(const Buffer& buffer) {
  const stream::Status status = buffer.status().stream;
  std::int64_t sum = status.trained.samples + status.formed.samples + status.waiting.samples;
  for (const stream::Amount& dropped : status.dropped) sum += dropped.samples;
  require(status.received.samples == sum, "received = trained + formed + waiting + dropped");
}

void send(Buffer& buffer, std::string_view text, Packing packing) {
  SpooledBody body;
  body.write(text);
  const std::int64_t before = buffer.status().stream.received.samples;
  const ReceivedSamples received(packing == Packing::none ? std::move(body)
                                                          : body.unpacked(packing, most_bytes));
  const Intake intake = buffer.take(received);
  const std::int64_t after = buffer.status().stream.received.samples;
  require(intake.accepted + intake.stale + intake.dropped == after - before, "what is accepted is received");
  require(
      intake.accepted + intake.stale + intake.dropped + intake.duplicates == std::ssize(received.samples()),
      "each sample is accepted or a duplicate");
}

}  // namespace

/// The first byte says how bodies are packed; a byte 0x1e ends one.
void run(Bytes input) {
  if (input.empty()) return;
  constexpr std::string_view end_of_body = "\x1e";
  const Packing packing = static_cast<Packing>(input.front() % 3);
  const std::string text = text_of(input.subspan(1));
  stream::StreamSettings settings;
  settings.group_size = 4;
  settings.max_staleness = 2;
  settings.on_stale = stream::OnStale::drop;
  Buffer buffer(make_memory_store(most_bytes), settings);
  buffer.publish(3);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end =
        packing == Packing::none ? std::min(rest.find(end_of_body), rest.size()) : rest.size();
    try {
      send(buffer, rest.substr(0, end), packing);
    } catch (const Error&) {
      require_balance(buffer);
      if (end == rest.size()) throw;
    }
    require_balance(buffer);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace evenkeel::fuzz
