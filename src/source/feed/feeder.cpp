#include "source/feed/feeder.hpp"

#include <algorithm>
#include <span>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "io/samples/ragged_body.hpp"
#include "source/arriving/patience.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_bytes_of_request = 4 << 20;
// The buffer's capacity is divided by this number to limit the size of a request. The buffer can then accept
// a request as soon as a small part of its capacity is free.
constexpr std::int64_t requests_in_buffer = 16;

std::string name_of_sample(std::int64_t number) {
  return "sample " + std::to_string(number) + " of the feeder";
}

/// Adds a field with one integer per sample.
std::span<std::int64_t> add_integer_field(RaggedBatch& samples, const char* name) {
  Column& column = samples.add_field(FieldSpec{name, DType::int64, FieldKind::sample, {}});
  return column.values<std::int64_t>();
}

}  // namespace

// Retries a call while the buffer is full or restarting. Rethrows all other errors.
template <typename Call>
auto Feeder::retry_until_answered(Call&& call) {
  Patience patience(settings_.patience, settings_.url, true);
  for (;;) {
    try {
      return call();
    } catch (const IoError& error) {
      patience.on_unreachable(error);
    }
  }
}

Feeder::Feeder(const FeedSettings& settings)
    : settings_(settings), client_(settings.url, settings.token, settings.ca) {
  const BufferRules rules = retry_until_answered([&] { return client_.rules(); });
  group_size_ = rules.group_size;
  bytes_of_request_ = std::min(max_bytes_of_request, rules.capacity / requests_in_buffer);
  version_ = rules.version;
}

void Feeder::send(RaggedBatch samples) {
  if (!samples.contexts().empty() &&
      std::ranges::any_of(samples.contexts(), [](auto hash) { return hash != 0; })) {
    throw InputError("batch.too_long", "is split, but pieces of trees cannot be sent to a buffer",
                     "Drop or truncate long samples instead");
  }
  const std::vector<std::string> uids = assign_uids_and_indices(samples);
  set_versions(samples);
  for (std::int64_t first = 0; first < samples.size();) {
    std::int64_t last = first;
    std::int64_t bytes = 0;
    while (last < samples.size() && (last == first || bytes < bytes_of_request_))
      bytes += bytes_of_sample(samples, last++);
    const auto names =
        std::span(uids).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    send_body(ragged_body(samples, first, last, names));
    first = last;
  }
  figures_.tokens += samples.num_tokens();
}

void Feeder::end() {
  retry_until_answered([&] { client_.end_stream(); });
}

std::vector<std::string> Feeder::assign_uids_and_indices(RaggedBatch& samples) {
  const bool has_index = samples.find("index") != nullptr;
  std::vector<std::string> uids;
  std::vector<std::int64_t> indexes;
  for (const SampleShape& sample : samples.samples()) {
    if (group_size_ == 1) {
      uids.push_back(settings_.name + ":" + std::to_string(next_position_));
      indexes.push_back(0);
    } else {
      indexes.push_back(assign_index(sample));
      uids.push_back(settings_.name + ":" + std::to_string(sample.group));
    }
    ++next_position_;
  }
  if (!has_index) std::ranges::copy(indexes, add_integer_field(samples, "index").begin());
  return uids;
}

std::int64_t Feeder::assign_index(const SampleShape& sample) {
  const std::string limit =
      "the groups of the buffer at " + settings_.url + " have " + format_plain_count(group_size_, "sample");
  if (is_single_sample_group(sample.group))
    throw InputError(
        name_of_sample(next_position_), "has no uid, but " + limit,
        "Give the responses to one prompt the same uid, or start the buffer with groups of one sample "
        "(--group-size 1, or stream.group_size: 1)");
  const std::int64_t index = num_sent_by_group_[sample.group]++;
  if (index < group_size_) return index;
  throw InputError(name_of_sample(next_position_), "is one too many for its group: " + limit,
                   "Give each prompt its own uid, read the source once (batch.epochs: 1, source.epochs: 1), "
                   "or start the buffer with larger groups (--group-size, or stream.group_size)");
}

void Feeder::set_versions(RaggedBatch& samples) const {
  if (samples.find("version") != nullptr || samples.find("versions") != nullptr) return;
  std::ranges::fill(add_integer_field(samples, "version"), settings_.version.value_or(version_));
}

void Feeder::send_body(const std::string& body) {
  const Intake intake = retry_until_answered([&] { return client_.send(body, SampleForm::tensors, ""); });
  version_ = std::max(version_, intake.version);
  figures_.accepted += intake.accepted;
  figures_.duplicates += intake.duplicates;
  figures_.stale += intake.stale;
  figures_.dropped += intake.dropped;
}

namespace {

/// Throws ConfigError if a source is a dump and a field has FieldSettings::at = token. The values in a dump
/// are already in the rows that predict their tokens, so the job would shift them a second time.
void reject_shifted_dump_fields(const Config& job) {
  const auto is_dump = [](const auto& source) { return source.second.kind == SourceKind::dump; };
  if (job.source.kind != SourceKind::dump && std::ranges::none_of(job.sources, is_dump)) return;
  for (const auto& [name, field] : job.fields) {
    if (field.at != RowConvention::token) continue;
    throw ConfigError(
        "fields." + name + ".at",
        "is token, but a dump has values at the rows that predict their tokens: the job would shift "
        "them a second time",
        "Set it to next, for the feeder and the job");
  }
}

}  // namespace

Config config_of_feeder(const Config& job) {
  if (job.sources.empty() && job.source.kind == SourceKind::stream)
    throw ConfigError("source.kind",
                      "is stream, but a feeder sends samples to a stream and cannot read from one",
                      "Name the files to read, or a configuration with other sources");
  if (job.delay.is_on())
    throw ConfigError("batch.delay_outliers",
                      "is set, but the job that receives the samples of a feeder forms the steps",
                      "Leave it out, or set stream.look_ahead in that job instead");
  if (job.filter.too_long != TooLong::error && !job.filter.max_length)
    throw ConfigError("batch.max_length", "is auto, which depends on the job's caps and mesh",
                      "Set it to a number of tokens");
  reject_shifted_dump_fields(job);
  Config config;
  config.source = job.source;
  config.sources = job.sources;
  config.mix = job.mix;
  config.batch = job.batch;
  config.filter = job.filter;
  config.fields = job.fields;
  config.micro_batch.max_tokens = std::max(config.micro_batch.max_tokens, job.filter.max_length.value_or(0));
  return config;
}

}  // namespace evenkeel
