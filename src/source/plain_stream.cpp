#include "source/plain_stream.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/hash.hpp"
#include "base/memory.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/batch_schedule.hpp"
#include "io/files/input_file.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/nodes.hpp"
#include "plan/schedule/selection.hpp"
#include "source/agreed_fields.hpp"
#include "source/cut_samples.hpp"
#include "source/length_limits.hpp"
#include "source/shares_ahead.hpp"

namespace evenkeel {
namespace {

// If prefetched samples are farther apart in a file than this number of bytes, a request to the disk rarely
// reads several of them.
constexpr double farthest_apart = 64 << 10;

std::string name_in_errors(const StreamSource& source) {
  return source.name.empty() ? "source " + source.path : "source '" + source.name + "'";
}

/// Returns the names of the source's fields whose kind is not determined by any source.
std::string describe_undecided_fields(const FieldsOfPart& part, std::span<const SourceField> agreed) {
  std::string text;
  for (const SourceField& field : part.fields) {
    const bool is_open = field.is_kind_open && std::ranges::any_of(agreed, [&](const SourceField& other) {
                           return other.spec.name == field.spec.name && other.is_kind_open;
                         });
    if (is_open) text += (text.empty() ? "'" : ", '") + field.spec.name + "'";
  }
  return text;
}

bool cuts_samples(const Config& config) {
  return config.filter.too_long == TooLong::truncate || config.filter.too_long == TooLong::split;
}

Selection select_samples(const SampleSource& source, const Config& config, std::int64_t length,
                         const std::string& name) {
  const bool takes_any_length = config.filter.too_long == TooLong::error && !config.filter.max_length;
  if (takes_any_length && config.filter.empty == EmptySample::keep) return Selection(source.num_samples());
  Selection selection(
      source.num_samples(), [&](std::int64_t position) { return source.tokens_in(position); }, config.filter,
      length, name);
  if (selection.size() == 0) {
    const FilterCounts& counts = selection.counts();
    const std::string advice = config.filter.max_length
                                   ? "Raise batch.max_length, which is "
                                   : "Raise the caps of micro-batches and paths, which limit "
                                     "samples to ";
    throw InputError(name,
                     "has no samples left: of " + format_plain_count(source.num_samples(), "sample") +
                         ", batch.too_long drops " + std::to_string(counts.dropped_too_long) +
                         " and batch.empty drops " + std::to_string(counts.dropped_empty),
                     counts.dropped_too_long == 0
                         ? "Change batch.empty"
                         : advice + format_plain_count(length, "token") + ", or change batch.too_long");
  }
  return selection;
}

/// Combines the number of a uid's group with the index of its source. Equal uids in different sources
/// therefore belong to different groups, except for hash collisions.
std::uint64_t group_in_source(std::uint64_t group, std::size_t source) {
  return mix_64(group ^ mix_64(source + 1)) & (first_own_group - 1);
}

}  // namespace

struct PlainStream::Parts {
  /// A source, and the offsets of its entries and samples in the combined lists of all sources.
  struct OpenSource {
    std::unique_ptr<SampleSource> samples;
    Selection selection{0};
    std::int64_t epochs = 1;
    std::int64_t weight = 1;
    std::int64_t first_entry = 0;
    std::int64_t first_sample = 0;
  };

  Parts(const Communicator& reading, const Config& config)
      : readers(reading), field_settings(config.fields) {}

  void open_all(const Config& config, std::span<const std::string> profiles);
  void open(const Config& config, const std::string& name, const SourceSettings& settings);
  void agree_on_fields();
  void choose_entries(const Config& config, std::span<const std::string> profiles);
  void set_up_schedule(const Config& config);
  [[nodiscard]] bool can_read_whole_samples() const noexcept {
    return open_sources.size() == 1 && open_sources[0].selection.takes_whole_samples();
  }
  [[nodiscard]] std::size_t source_of(std::int64_t entry) const;
  [[nodiscard]] std::int64_t length_of(std::int64_t entry) const;
  [[nodiscard]] OutlierDelay make_outlier_delay(const Config& config) const;
  void prefetch(std::span<const std::int64_t> entries) const;
  [[nodiscard]] std::int64_t window_steps(const ScheduleSettings& batch, std::int64_t ranks_of_node) const;
  void set_up_reading(const Config& config);
  [[nodiscard]] RaggedBatch read_whole_samples(std::vector<std::int64_t> entries) const;
  [[nodiscard]] RaggedBatch read_pieces(std::span<const std::int64_t> entries) const;
  void record_fingerprints();

  const Communicator& readers;
  NamedFields field_settings;
  std::vector<StreamSource> stream_sources;
  std::vector<OpenSource> open_sources;
  // The fields of each source; empty if there is only one source and its samples are not cut.
  std::vector<FieldsOfPart> declared_fields;
  std::vector<SourceField> fields;  // result of agreed_fields() for all sources
  std::optional<BatchSchedule> schedule;
  std::int64_t samples = 0;
  std::int64_t steps = 0;
  std::vector<SourceFingerprint> fingerprints;
  std::uint64_t order = 0;
  bool is_delayed = false;
  DelayFigures delay_until_now;
  std::optional<SharesAhead> shares;
};

void PlainStream::Parts::open(const Config& config, const std::string& name, const SourceSettings& settings) {
  // A source of kind lengths does not generate tokens for samples that exceed all caps, unless samples are
  // cut.
  auto source = open_source(readers, settings, cuts_samples(config) ? any_length : longest_sample(config),
                            config.fields);
  fail_together(
      readers, try_on_replicated_data([&] {
        stream_sources.push_back(
            {name, settings.path_text(), {}, source->ignored_content(), source->undecided_fields()});
        OpenSource& opened = open_sources.emplace_back();
        opened.samples = std::move(source);
        opened.epochs = settings.epochs;
        opened.weight = settings.weight;
      }));
}

/// Merges the fields of all sources. Collective over the readers.
void PlainStream::Parts::agree_on_fields() {
  for (std::size_t i = 0; i < open_sources.size(); ++i) {
    run_together(readers, [&] {
      declared_fields.push_back({name_in_errors(stream_sources[i]), open_sources[i].samples->fields()});
    });
  }
  fail_together(readers, try_on_replicated_data([&] {
                  fields = agreed_fields(declared_fields, "sources");
                  for (std::size_t i = 0; i < stream_sources.size(); ++i)
                    stream_sources[i].undecided_fields =
                        describe_undecided_fields(declared_fields[i], fields);
                }));
}

void PlainStream::Parts::choose_entries(const Config& config, std::span<const std::string> profiles) {
  const std::vector<PlanSettings> passes =
      settings_of_passes(config.grid(readers.size()).sizes(), config, profiles);
  require_filter_fits_caps(config, passes, profiles);
  const std::int64_t length = max_length_for_filter(config, passes);
  std::int64_t entries = 0;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < open_sources.size(); ++i) {
    OpenSource& source = open_sources[i];
    source.selection = select_samples(*source.samples, config, length, name_in_errors(stream_sources[i]));
    if (cuts_samples(config))
      require_rows_can_be_cut(declared_fields[i].fields, config.fields, declared_fields[i].name,
                              source.selection.counts());
    source.first_entry = entries;
    source.first_sample = before;
    stream_sources[i].counts = source.selection.counts();
    entries += source.selection.size();
    before += source.samples->num_samples();
  }
}

void PlainStream::Parts::set_up_schedule(const Config& config) {
  require_samples_for_updates(config);
  std::vector<ScheduledSource> scheduled;
  for (const OpenSource& source : open_sources) {
    ScheduledSource& part = scheduled.emplace_back();
    part.samples = source.selection.size();
    part.epochs = source.epochs;
    part.weight = source.weight;
    samples += part.draws();
    if (config.mix == MixBy::samples) continue;
    // The captured reference stays valid, since `open_sources` does not change from here on.
    part.size = [this, &source](std::int64_t entry) { return length_of(source.first_entry + entry); };
  }
  is_delayed = config.delay.is_on();
  schedule.emplace(std::move(scheduled), config.batch,
                   is_delayed ? make_outlier_delay(config) : OutlierDelay{});
  steps = schedule->num_steps();
}

/// Returns the number of tokens of an entry, which is a sample or a piece of a sample.
std::int64_t PlainStream::Parts::length_of(std::int64_t entry) const {
  const OpenSource& source = open_sources[source_of(entry)];
  const std::int64_t own = entry - source.first_entry;
  return source.selection.piece(own, source.samples->tokens_in(source.selection.position_of(own)))
      .tokens.size();
}

OutlierDelay PlainStream::Parts::make_outlier_delay(const Config& config) const {
  const OpenSource& last = open_sources.back();
  std::int64_t longest = 0;
  for (std::int64_t entry = 0; entry < last.first_entry + last.selection.size(); ++entry)
    longest = std::max(longest, length_of(entry));
  return {config.delay, [this](std::int64_t entry) { return length_of(entry); },
          config.delay_settings(longest)};
}

std::size_t PlainStream::Parts::source_of(std::int64_t entry) const {
  const auto after = std::ranges::upper_bound(open_sources, entry, {}, &OpenSource::first_entry);
  return static_cast<std::size_t>(after - open_sources.begin()) - 1;
}

void PlainStream::Parts::prefetch(std::span<const std::int64_t> entries) const {
  std::vector<std::vector<std::int64_t>> positions(open_sources.size());
  for (const std::int64_t entry : entries) {
    const std::size_t s = source_of(entry);
    positions[s].push_back(open_sources[s].selection.position_of(entry - open_sources[s].first_entry));
  }
  for (std::size_t s = 0; s < positions.size(); ++s) {
    if (!positions[s].empty()) open_sources[s].samples->prefetch(positions[s]);
  }
}

/// Returns the number of steps whose samples are prefetched together. Returns 1 if prefetching several steps
/// together would not help: if there are no files, the files do not fit in the page cache, samples are not
/// shuffled, or the samples of a window would be too far apart.
std::int64_t PlainStream::Parts::window_steps(const ScheduleSettings& batch,
                                              std::int64_t ranks_of_node) const {
  std::int64_t bytes = 0;
  std::int64_t all = 0;
  for (const OpenSource& source : open_sources) {
    bytes += source.samples->file_bytes();
    all += source.samples->num_samples();
  }
  // Prefetched data must stay in the page cache until it is read, so the files may fill at most half of the
  // available memory.
  if (!batch.shuffle || bytes == 0 || bytes > available_memory().value_or(0) / 2) return 1;
  const double sample_bytes = static_cast<double>(bytes) / static_cast<double>(all);
  // The read-ahead limit of each rank must cover two windows: the one being read and the one being
  // prefetched.
  const double of_node = static_cast<double>(ReadAhead::max_bytes / 2 * ranks_of_node);
  const double step_bytes = sample_bytes * static_cast<double>(batch.global_batch) *
                            static_cast<double>(ranks_of_node) / readers.size();
  const double apart = sample_bytes * static_cast<double>(bytes) / of_node;
  if (apart > farthest_apart) return 1;
  return static_cast<std::int64_t>(
      std::clamp(of_node / step_bytes, 1.0, static_cast<double>(schedule->steps_per_epoch())));
}

void PlainStream::Parts::set_up_reading(const Config& config) {
  const std::vector<int> nodes = nodes_of_ranks(readers);
  run_together(readers, [&] {
    SharesAhead::Reader reader{readers.rank(), readers.size(), {}};
    for (int rank = 0; rank < readers.size(); ++rank) {
      if (nodes[static_cast<std::size_t>(rank)] == nodes[static_cast<std::size_t>(readers.rank())])
        reader.node_ranks.push_back(rank);
    }
    const std::int64_t window = window_steps(config.batch, std::ssize(reader.node_ranks));
    const OpenSource& last = open_sources.back();
    shares.emplace(*schedule, last.first_entry + last.selection.size(), std::move(reader), window,
                   [this](std::span<const std::int64_t> entries) { prefetch(entries); });
  });
}

RaggedBatch PlainStream::Parts::read_whole_samples(std::vector<std::int64_t> entries) const {
  for (std::int64_t& entry : entries) entry = open_sources[0].selection.position_of(entry);
  return open_sources[0].samples->read(entries);
}

RaggedBatch PlainStream::Parts::read_pieces(std::span<const std::int64_t> entries) const {
  std::vector<std::vector<std::int64_t>> positions(open_sources.size());
  std::vector<Cut> cuts;
  cuts.reserve(entries.size());
  for (const std::int64_t entry : entries) {
    const std::size_t s = source_of(entry);
    const OpenSource& source = open_sources[s];
    const std::int64_t position = source.selection.position_of(entry - source.first_entry);
    const Piece piece =
        source.selection.piece(entry - source.first_entry, source.samples->tokens_in(position));
    // If consecutive pieces belong to the same sample, the sample is read once.
    if (positions[s].empty() || positions[s].back() != position) positions[s].push_back(position);
    cuts.push_back(
        {s, std::ssize(positions[s]) - 1, piece.tokens, SampleId{source.first_sample + position}, 0});
  }
  std::vector<RaggedBatch> batches;
  for (std::size_t s = 0; s < open_sources.size(); ++s)
    batches.push_back(positions[s].empty()
                          ? RaggedBatch()
                          : convert_to_agreed_fields(open_sources[s].samples->read(positions[s]), fields));
  for (Cut& cut : cuts) {
    const SampleShape& shape = batches[cut.batch].samples()[static_cast<std::size_t>(cut.index)];
    cut.group = shape.group;
    if (open_sources.size() == 1) {
      cut.id = shape.id;
    } else {
      cut.group = is_single_sample_group(shape.group) ? own_group(cut.id.value())
                                                      : group_in_source(shape.group, cut.batch);
    }
  }
  return cut_samples(batches, cuts, field_settings);
}

// Collective over the readers.
void PlainStream::Parts::open_all(const Config& config, std::span<const std::string> profiles) {
  if (config.sources.empty()) open(config, "", config.source);
  for (const auto& [name, settings] : config.sources) open(config, name, settings);
  if (open_sources.size() > 1 || cuts_samples(config)) agree_on_fields();
  fail_together(readers, try_on_replicated_data([&] {
                  choose_entries(config, profiles);
                  set_up_schedule(config);
                }));
  set_up_reading(config);
}

PlainStream::PlainStream(const Communicator& readers, const Config& config)
    : ReadingStream(readers), parts_(std::make_unique<Parts>(this->readers(), config)) {}

PlainStream::~PlainStream() = default;

void PlainStream::open(const Config& config, std::span<const std::string> profiles) {
  parts_->open_all(config, profiles);
}

const std::vector<StreamSource>& PlainStream::sources() const noexcept {
  return parts_->stream_sources;
}

std::int64_t PlainStream::num_samples() const noexcept {
  return parts_->samples;
}

std::int64_t PlainStream::num_steps() const noexcept {
  return parts_->steps;
}

RaggedBatch PlainStream::read(std::int64_t step) {
  Parts& parts = *parts_;
  std::vector<std::int64_t> entries = parts.shares->fetch_share(step);
  if (parts.is_delayed) parts.delay_until_now.add(parts.schedule->delay_of(step));
  return parts.can_read_whole_samples() ? parts.read_whole_samples(std::move(entries))
                                        : parts.read_pieces(entries);
}

void PlainStream::Parts::record_fingerprints() {
  for (std::size_t i = fingerprints.size(); i < open_sources.size(); ++i) {
    SourceFingerprint fingerprint = open_sources[i].samples->fingerprint(readers);
    run_together(readers, [&] { fingerprints.push_back(std::move(fingerprint)); });
  }
  order = 0;
  for (const OpenSource& source : open_sources) order = mix_64(order ^ source.selection.digest()) + 1;
  // The delay of outliers depends on planning, which may differ between versions of the program.
  if (is_delayed) order = mix_64(order ^ fnv1a_64(EVENKEEL_VERSION)) + 1;
}

DelayFigures PlainStream::delay_figures() {
  return parts_->delay_until_now;
}

void PlainStream::describe(ServiceState& state) {
  GuardedWork work;
  work.run_always([&] { parts_->record_fingerprints(); });
  work([&] {
    state.sources = parts_->fingerprints;
    state.order = parts_->order;
  });
  work.agree(readers());
}

void PlainStream::publish(std::int64_t /*version*/) {
  throw ConfigError(
      "source.kind",
      "is not stream: policy versions are only used for samples that arrive while the job trains",
      "Do not publish versions");
}

}  // namespace evenkeel
