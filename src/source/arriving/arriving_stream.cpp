#include "source/arriving/arriving_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <utility>

#include "base/hash.hpp"
#include "base/sample_names_in_errors.hpp"
#include "buffer/server.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/nodes.hpp"
#include "plan/schedule/row_conventions.hpp"
#include "plan/schedule/selection.hpp"
#include "service/equal_on_ranks.hpp"
#include "source/arriving/heartbeats.hpp"
#include "source/arriving/own_buffer.hpp"
#include "source/arriving/patience.hpp"
#include "source/arriving/step_names.hpp"
#include "source/arriving/steps_of_buffer.hpp"
#include "source/cut_samples.hpp"
#include "source/declared_formats.hpp"
#include "source/length_limits.hpp"
#include "transport/gather_lists.hpp"

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::ArrivalFigures& figures, unsigned /*version*/) {
  archive& figures.received& figures.duplicates& figures.trained& figures.formed& figures.waiting;
  archive& figures.dropped& figures.received_tokens& figures.trained_tokens& figures.staleness& figures
      .waited_seconds;
}

}  // namespace boost::serialization

namespace evenkeel {
namespace {

constexpr std::int64_t typical_length = 4096;

/// Throws ConfigError if the job's configuration sets stream.`key` to a value other than the buffer's.
template <typename Value, typename Words>
void require_same_rule(const std::string& key, const std::optional<Value>& wanted,
                       const std::optional<Value>& has, const std::string& url, Words&& words) {
  if (!wanted || wanted == has) return;
  throw ConfigError("stream." + key,
                    "is " + words(*wanted) + ", but the buffer at " + url + " has " +
                        (has ? words(*has) : std::string("none")),
                    "Leave it out, or start the buffer with the same value");
}

void require_same_rules(const ArrivalSettings& wanted, const stream::StreamSettings& has,
                        const std::string& url) {
  const auto number = [](auto value) { return fmt::format("{}", value); };
  const auto word = [](OnStale value) { return std::string(stream::name_of(value)); };
  require_same_rule<std::int64_t>("group_size", wanted.group_size, has.group_size, url, number);
  require_same_rule<std::int64_t>("min_group", wanted.min_group, has.min_trained_samples(), url, number);
  require_same_rule("deadline", wanted.deadline, has.deadline, url, number);
  require_same_rule("max_staleness", wanted.max_staleness, has.max_staleness, url, number);
  require_same_rule<OnStale>("on_stale", wanted.on_stale, has.on_stale, url, word);
}

/// Logs a note if the job sets a ticket deadline that differs from the buffer's deadline, which applies. This
/// is not an error, since tickets concern only producers and steps do not depend on the deadline.
void note_other_ticket_deadline(const ArrivalSettings& wanted, const stream::StreamSettings& has,
                                const std::string& url) {
  if (!wanted.ticket_deadline || *wanted.ticket_deadline == has.ticket_deadline) return;
  send_waiting_note(
      fmt::format("stream.ticket_deadline is {:g}, but the buffer at {} uses {:g}. To change "
                  "it, restart the buffer with another --ticket-deadline",
                  *wanted.ticket_deadline, url, has.ticket_deadline));
}

/// Throws ConfigError if the job declares a different format for a field than the buffer.
void require_same_formats(const DeclaredFormats& wanted, const DeclaredFormats& has, const std::string& url) {
  for (const auto& [name, format] : wanted) {
    const auto known = has.find(name);
    if (known != has.end() && known->second == format) continue;
    throw ConfigError(
        "fields." + name + ".read_as",
        "is " + std::string(name_of(format)) + ", but the buffer at " + url + " reads the field " +
            (known == has.end() ? "without a declared format" : "as " + std::string(name_of(known->second))),
        "Leave it out, or start the buffer with --read-as " + name + "=" + std::string(name_of(format)));
  }
}

PlanSettings costliest_pass(const std::vector<PlanSettings>& passes) {
  return std::ranges::max(passes, {},
                          [](const PlanSettings& pass) { return pass.balance.cost(typical_length); });
}

/// Returns the requirements on samples that follow from the job's configuration and passes.
Acceptance make_acceptance(const Config& config, std::span<const PlanSettings> passes) {
  Acceptance accepts;
  const auto limit_tokens = [&](std::int64_t most) {
    accepts.max_tokens = std::min(accepts.max_tokens.value_or(most), most);
  };
  if (config.filter.too_long == TooLong::error && config.filter.max_length)
    limit_tokens(*config.filter.max_length);
  for (const auto& [name, field] : config.fields)
    if (field.at) accepts.at.emplace(name, *field.at);
  for (const PlanSettings& pass : passes) {
    if (config.filter.too_long == TooLong::error) {
      const std::int64_t alignment = pass.alignment(pass.largest_group());
      limit_tokens(pass.cap(pass.largest_group()) / alignment * alignment);
      if (pass.max_path_tokens) limit_tokens(*pass.max_path_tokens);
    }
    for (const auto& [field, most] : pass.micro_batch.max_rows) {
      const auto [known, is_new] = accepts.max_rows.emplace(field, most);
      known->second = std::min(known->second, most);
    }
    accepts.shares_prompts = accepts.shares_prompts || pass.sharing != PrefixSharing::none;
    accepts.has_trees = accepts.has_trees || pass.sharing == PrefixSharing::trees;
    accepts.predict_ahead = std::max(accepts.predict_ahead, pass.predict_ahead);
  }
  return accepts;
}

/// Sets the loss mask of masked samples to 0. If there is no loss mask, first adds a mask of ones, with one
/// value per response token. `arrivals` has the arrival number of each sample of the batch. `masked` has the
/// arrival numbers of the masked samples, in ascending order.
void set_loss_masks(RaggedBatch& batch, std::span<const std::int64_t> arrivals,
                    std::span<const std::int64_t> masked) {
  if (find_loss_mask(batch) == nullptr) {
    Column& mask =
        batch.add_field({std::string(loss_mask_field), DType::float32, FieldKind::response_token, {}});
    std::ranges::fill(mask.values<float>(), 1.0F);
  }
  Column& mask = *find_loss_mask(batch);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    if (!std::ranges::binary_search(masked, arrivals[i])) continue;
    const RowRange rows = batch.rows_of(mask, static_cast<std::int64_t>(i));
    std::fill(mask.row(rows.begin), mask.row(rows.end), std::byte{0});
  }
}

}  // namespace

struct ArrivingStream::Parts {
  /// Data about the buffer that the first reader broadcasts to the other readers.
  struct OpenedBuffer {
    std::string url;
    std::string token;
    JobPass pass;
    std::string identity;
    std::int64_t group_size = 1;
    bool masks_stale = false;
    DeclaredFormats formats;

    template <class Archive>
    void serialize(Archive& archive, unsigned /*version*/) {
      archive& url& token& pass.job& pass.rules& identity& group_size& masks_stale& formats;
    }
  };

  explicit Parts(const Config& configured) : config(configured) {}

  void choose_passes(std::span<const std::string> profiles);
  void open_buffer(const Communicator& readers, GuardedWork& work);
  void set_forming_rules();
  [[nodiscard]] stream::FormedStep get_step(std::int64_t step);
  [[nodiscard]] std::vector<std::int64_t> share_of(const stream::FormedStep& step) const;
  [[nodiscard]] RaggedBatch cut(RaggedBatch batch) const;

  Config config;
  int reader = 0;
  int num_readers = 1;
  std::vector<StreamSource> stream_sources;
  // The job's own buffer; null on the other readers, and if the job uses an external buffer.
  std::unique_ptr<OwnBuffer> own;
  OpenedBuffer buffer_info;
  // The next three members are set only on the first reader.
  std::optional<stream::StreamSettings> rules_of_buffer;
  std::optional<FormingRules> rules;
  std::optional<Heartbeats> heartbeats;
  std::vector<PlanSettings> passes;
  std::int64_t longest = 0;  // maximum length of a sample that the filter keeps, in tokens
  std::atomic<bool> must_stop{false};
  std::atomic<bool> has_ended{false};           // whether no more steps will be formed
  std::optional<StepsOfBuffer> steps;           // used by the reading thread
  std::optional<StepsOfBuffer> trainer_client;  // used by the trainer's thread; only on the first reader
  std::int64_t trained = 0;                     // number of steps reported to the buffer as trained
};

/// On the first reader, opens the job's own buffer, or connects to the buffer whose URL is source.path, and
/// begins the job in that buffer.
void ArrivingStream::Parts::open_buffer(const Communicator& readers, GuardedWork& work) {
  const std::vector<int> nodes = nodes_of_ranks(readers);
  work([&] {
    if (reader != 0) return;
    const ArrivalSettings& settings = config.stream;
    if (!settings.token_file.empty()) buffer_info.token = read_token(settings.token_file);
    if (config.source.names_buffer()) {
      buffer_info.url = config.source.path.string();
    } else {
      own = std::make_unique<OwnBuffer>(config, buffer_info.token);
      buffer_info.url = own->url();
      const bool is_one_node = std::ranges::all_of(nodes, [&](int node) { return node == nodes.front(); });
      if (!is_one_node && !own->is_open_to_others()) {
        throw ConfigError("stream.listen",
                          "is " + settings.listen + ", which ranks that read on other machines cannot reach",
                          "Set it to an address of the network, with stream.token_file");
      }
    }
    steps.emplace(BufferAccess{buffer_info.url, buffer_info.token, settings.ca_file, settings.patience},
                  must_stop);
    // If no other server shares the store of the job's own buffer, every earlier job has ended, since two
    // processes cannot have the store open at the same time.
    const bool takes_over = settings.take_over || (own && own->has_exclusive_store());
    const JobStartReply reply =
        steps->begin(config.batch.global_batch, {takes_over, make_acceptance(config, passes)});
    buffer_info.pass = reply.pass;
    heartbeats.emplace(JobClient(buffer_info.url, buffer_info.token, settings.ca_file, buffer_info.pass));
    require_same_rules(settings, reply.settings, buffer_info.url);
    note_other_ticket_deadline(settings, reply.settings, buffer_info.url);
    require_same_formats(declared_formats(config.fields), reply.formats, buffer_info.url);
    buffer_info.identity = reply.identity;
    buffer_info.formats = reply.formats;
    buffer_info.group_size = reply.settings.group_size;
    buffer_info.masks_stale = reply.settings.on_stale == OnStale::mask;
    rules_of_buffer = reply.settings;
  });
}

void ArrivingStream::Parts::choose_passes(std::span<const std::string> profiles) {
  require_samples_for_updates(config);
  passes = settings_of_passes(config.grid(num_readers).sizes(), config, profiles);
  require_filter_fits_caps(config, passes, profiles);
  longest = max_length_for_filter(config, passes);
}

void ArrivingStream::Parts::set_forming_rules() {
  if (!rules_of_buffer) return;
  FormingRules& forming = rules.emplace();
  forming.stream = *rules_of_buffer;
  forming.stream.look_ahead = config.stream.look_ahead;
  forming.groups = config.batch.global_batch / buffer_info.group_size;
  forming.plan = costliest_pass(passes);
  forming.publishes_steps = !config.stream.versions_by_trainer;
  forming.drops_empty = config.filter.empty == EmptySample::drop;
  if (config.filter.too_long == TooLong::drop) forming.drops_above = longest;
}

stream::FormedStep ArrivingStream::Parts::get_step(std::int64_t step) {
  try {
    return steps->step(step, rules ? &*rules : nullptr);
  } catch (const EndOfSamples&) {
    has_ended = true;
    throw;
  }
}

/// Returns this rank's contiguous share of the step's samples. Share sizes differ by at most one sample, and
/// larger shares come first. Steps of other kinds of sources are divided in the same way.
std::vector<std::int64_t> ArrivingStream::Parts::share_of(const stream::FormedStep& step) const {
  std::vector<std::int64_t> arrivals;
  for (const stream::WaitingGroup& group : step.groups) {
    for (const stream::WaitingSample& sample : group.samples) arrivals.push_back(sample.arrival);
  }
  const std::int64_t all = std::ssize(arrivals);
  const auto end_of = [&](int rank) {
    return arrivals.begin() + rank * (all / num_readers) + std::min<std::int64_t>(rank, all % num_readers);
  };
  return {end_of(reader), end_of(reader + 1)};
}

/// Truncates or splits samples as the filter requires. Samples that the filter drops were already dropped
/// when the step was formed.
RaggedBatch ArrivingStream::Parts::cut(RaggedBatch batch) const {
  if (config.filter.too_long != TooLong::truncate && config.filter.too_long != TooLong::split) return batch;
  const std::span<const SampleShape> samples = batch.samples();
  const auto tokens_in = [&](std::int64_t i) { return samples[static_cast<std::size_t>(i)].length(); };
  FilterSettings filter = config.filter;
  filter.empty = EmptySample::keep;
  const Selection selection(batch.size(), tokens_in, filter, longest, buffer_info.url);
  if (selection.takes_whole_samples()) return batch;
  std::vector<SourceField> fields;
  for (const Column& column : batch.fields()) {
    if (column.spec().name != input_ids_field) fields.push_back({column.spec()});
  }
  require_rows_can_be_cut(fields, config.fields, "source " + buffer_info.url, selection.counts());
  std::vector<Cut> cuts;
  for (std::int64_t entry = 0; entry < selection.size(); ++entry) {
    const std::int64_t at = selection.position_of(entry);
    const SampleShape& shape = samples[static_cast<std::size_t>(at)];
    cuts.push_back({0, at, selection.piece(entry, shape.length()).tokens, shape.id, shape.group});
  }
  return cut_samples({&batch, 1}, cuts, config.fields);
}

ArrivingStream::ArrivingStream(const Communicator& readers, const Config& config)
    : ReadingStream(readers), parts_(std::make_unique<Parts>(config)) {}

ArrivingStream::~ArrivingStream() = default;

void ArrivingStream::open(const Config& /*config*/, std::span<const std::string> profiles) {
  Parts& parts = *parts_;
  parts.reader = readers().rank();
  parts.num_readers = readers().size();
  fail_together(readers(), try_on_replicated_data([&] { parts.choose_passes(profiles); }));
  GuardedWork work;
  parts.open_buffer(readers(), work);
  broadcast_value(readers(), parts.buffer_info, 0, work);
  work([&] {
    const ArrivalSettings& settings = parts.config.stream;
    const BufferAccess access{parts.buffer_info.url, parts.buffer_info.token, settings.ca_file,
                              settings.patience, parts.buffer_info.pass};
    if (!parts.steps) parts.steps.emplace(access, parts.must_stop);
    parts.steps->set_formats(parts.buffer_info.formats);
    if (parts.reader == 0) parts.trainer_client.emplace(access, parts.must_stop);
    const SourceSettings& source = parts.config.source;
    const std::string spool = source.names_buffer() ? "" : source.path.string();
    parts.stream_sources.push_back({"", spool.empty() ? parts.buffer_info.url : spool, {}, "", ""});
  });
  work.agree(readers());
  parts.set_forming_rules();
}

const std::vector<StreamSource>& ArrivingStream::sources() const noexcept {
  return parts_->stream_sources;
}

std::int64_t ArrivingStream::num_steps() const noexcept {
  return SampleStream::unknown_num_steps;
}

RaggedBatch ArrivingStream::read(std::int64_t step) {
  Parts& parts = *parts_;
  const stream::FormedStep formed = parts.get_step(step);
  const NamesInErrors names = make_names_in_errors(formed);
  return with_sample_names_in_errors(names, [&] {
    const std::vector<std::int64_t> share = parts.share_of(formed);
    RaggedBatch batch = parts.steps->read(share);
    if (parts.buffer_info.masks_stale && batch.size() > 0) set_loss_masks(batch, share, formed.masked);
    batch = parts.cut(std::move(batch));
    batch.set_names_in_errors(names);
    return batch;
  });
}

void ArrivingStream::publish(std::int64_t version) {
  require_equal_on_ranks(
      readers(),
      run_together(readers(),
                   [&] {
                     return std::vector<ConfigSetting>{{"version", std::to_string(version)}};
                   }),
      "Publish the same version on every rank");
  run_together(readers(), [&] {
    if (!parts_->config.stream.versions_by_trainer)
      throw ConfigError("stream.version", "is step, so versions are step numbers",
                        "Set it to trainer, or publish nothing");
    if (parts_->trainer_client) parts_->trainer_client->publish(version);
  });
}

ArrivalFigures ArrivingStream::arrival_figures() {
  GuardedWork work;
  ArrivalFigures figures;
  work([&] {
    if (!parts_->trainer_client) return;
    figures = parts_->trainer_client->figures();
    parts_->steps->set_step_figures(figures);
  });
  broadcast_value(readers(), figures, 0, work);
  work.agree(readers());
  return figures;
}

void ArrivingStream::report_saved_before(std::int64_t next_step) {
  run_together(readers(), [&] {
    if (!parts_->trainer_client || next_step <= parts_->trained) return;
    // The trainer should not wait for this report, so it is best effort: if it fails, the report of the next
    // step also covers this step. The report after the last step must wait for the buffer, since no other
    // report follows.
    if (parts_->has_ended)
      parts_->trainer_client->report_trained_until_reached(next_step - 1);
    else if (!parts_->trainer_client->report_trained(next_step - 1))
      return;
    parts_->trained = next_step;
  });
}

void ArrivingStream::stop_waiting() noexcept {
  parts_->must_stop = true;
}

void ArrivingStream::resume_waiting() noexcept {
  parts_->must_stop = false;
}

void ArrivingStream::describe(ServiceState& state) {
  run_together(readers(), [&] {
    state.sources = {{parts_->buffer_info.url, 0, 0, fnv1a_64(parts_->buffer_info.identity)}};
    state.order = 0;
  });
}

}  // namespace evenkeel
