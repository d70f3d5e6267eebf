// Bodies of requests to a buffer, compressed or not, one after another into the same buffer.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/intake/received_samples.hpp"
#include "buffer/intake/sample_bodies.hpp"
#include "buffer/store/store.hpp"
#include "fuzz/target.hpp"

namespace evenkeel::fuzz {
namespace {

constexpr std::int64_t max_bytes = 1 << 20;

void require_balance(const Buffer& buffer) {
  const stream::Status status = buffer.status().stream;
  std::int64_t sum = status.trained.samples + status.formed.samples + status.waiting.samples;
  for (const stream::Amount& dropped : status.dropped) sum += dropped.samples;
  require(status.received.samples == sum, "received = trained + formed + waiting + dropped");
}

RequestBody body_of(std::string_view text) {
  RequestBody body;
  body.write(text);
  return body;
}

/// Lines are outlined if possible, which must give the same result as parsing them.
void require_same(const ReceivedSamples& received, const ReceivedSamples& parsed) {
  require(received.schema() == parsed.schema(), "outlined and parsed lines have the same fields");
  require(received.samples().size() == parsed.samples().size(),
          "outlined and parsed lines have the same number of samples");
  for (std::size_t i = 0; i < received.samples().size(); ++i) {
    const ReceivedSample& one = received.samples()[i];
    const ReceivedSample& other = parsed.samples()[i];
    require(one.accepted == other.accepted && one.body == other.body && one.number == other.number,
            "outlined and parsed lines are the same samples");
  }
}

ReceivedSamples parsed_lines(std::string_view text) {
  try {
    return ReceivedSamples::parse_without_outlines(body_of(text));
  } catch (const Error&) {
    require(false, "what was outlined can be parsed");
    throw;
  }
}

/// The tensors that a buffer keeps can be read again, each sample separately.
void require_readable(const ReceivedSamples& received) {
  std::string answer;
  std::vector<std::int64_t> arrivals;
  for (const ReceivedSample& sample : received.samples()) {
    const BodyFrame frame = make_body_frame(sample.body);
    answer.append(frame.before).append(sample.body).append(frame.after);
    arrivals.push_back(sample.number);
  }
  const RaggedBatch batch = parse_samples(answer, arrivals, received.schema(), stream_formats());
  require(batch.size() == std::ssize(arrivals), "each sample is read again");
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const stream::SampleAccepted& accepted = received.samples()[i].accepted;
    const SampleShape& shape = batch.samples()[i];
    require(shape.prompt == accepted.prompt && shape.response == accepted.response,
            "each sample is read with the lengths that it had");
  }
}

/// Returns a buffer that has not received anything yet. Most inputs leave it empty: creating one takes longer
/// than rejecting a body.
Buffer& new_buffer() {
  static std::unique_ptr<Buffer> buffer;
  const stream::Status now = buffer ? buffer->status().stream : stream::Status{};
  if (now.received.samples + now.duplicates == 0 && buffer) return *buffer;
  stream::StreamSettings settings;
  settings.group_size = 4;
  settings.max_staleness = 2;
  settings.on_stale = OnStale::drop;
  buffer = std::make_unique<Buffer>(make_memory_store(max_bytes), settings);
  buffer->publish(3);
  return *buffer;
}

void send(Buffer& buffer, std::string_view text, Packing packing, SampleForm form) {
  const std::int64_t before = buffer.status().stream.received.samples;
  const ReceivedSamples received(
      packing == Packing::none ? body_of(text) : body_of(text).unpack_body(packing, max_bytes), form);
  if (packing == Packing::none && form == SampleForm::lines) require_same(received, parsed_lines(text));
  require_readable(received);
  const Intake intake = buffer.accept_samples(received);
  const std::int64_t after = buffer.status().stream.received.samples;
  require(intake.accepted + intake.stale + intake.dropped == after - before,
          "accepted, stale and dropped samples are received");
  require(
      intake.accepted + intake.stale + intake.dropped + intake.duplicates == std::ssize(received.samples()),
      "each sample is accepted, stale, dropped or a duplicate");
}

}  // namespace

/// The first byte specifies the compression of the bodies and whether they are tensors. A byte 0x1e ends one
/// body of lines; their number is limited, because each one waits for a commit.
void run(Bytes input) {
  if (input.empty()) return;
  constexpr std::string_view end_of_body = "\x1e";
  constexpr int max_bodies = 8;
  const Packing packing = static_cast<Packing>(input.front() % 3);
  const SampleForm form = input.front() % 6 < 3 ? SampleForm::lines : SampleForm::tensors;
  const std::string text = text_of(input.subspan(1));
  Buffer& buffer = new_buffer();
  std::string_view rest = text;
  for (int body = 0; body < max_bodies && !rest.empty(); ++body) {
    const std::size_t end = packing == Packing::none && form == SampleForm::lines
                                ? std::min(rest.find(end_of_body), rest.size())
                                : rest.size();
    try {
      send(buffer, rest.substr(0, end), packing, form);
    } catch (const Error&) {
      require_balance(buffer);
      if (end == rest.size()) throw;
    }
    require_balance(buffer);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace evenkeel::fuzz
