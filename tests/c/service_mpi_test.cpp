// Steps, later passes and results through the C API, compared with the C++ service for the same samples.

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/communicator.hpp>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "c/held.hpp"
#include "c/values_of.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/service/data_service.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::test {
namespace {

using testing_support::made_up_batch;
using testing_support::made_up_fields;
using testing_support::made_up_shape;

RaggedBatch share_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < 43; ++id) {
    if (id * id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  }
  return made_up_batch(std::move(shapes), made_up_fields());
}

std::vector<std::string> jobs(int ranks) {
  const std::string passes =
      "micro_batch: {max_tokens: 1000}\n"
      "profiles:\n"
      "  log_prob: {}\n"
      "  update: {micro_batch: {max_tokens: 200}}\n"
      "  aligned: {pack: {align_lcm: 16}}\n";
  std::vector<std::string> yaml{passes, passes + "prefix: {share: true}\n",
                                passes + "fields: {image_patches: {share: equal}, blob: {share: equal}}\n"};
  if (ranks % 2 == 0) yaml.push_back(passes + "mesh: {cp: 2}\n");
  if (ranks % 4 == 0) yaml.push_back(passes + "mesh: {tp: 2, pp: 2}\n");
  return yaml;
}

template <typename Integer, typename Call>
void expect_equal_route(const RowRoute<Integer>& expected, Call call) {
  const auto route = made<evenkeel_arrays>(call);
  EXPECT_EQ(values_of<Integer>(route.get(), "send_rows"), expected.send_rows);
  EXPECT_EQ(values_of<Integer>(route.get(), "receive_rows"), expected.receive_rows);
  const auto counts = [&](const char* name) { return values_of<std::int32_t>(route.get(), name); };
  EXPECT_TRUE(std::ranges::equal(counts("send_counts"), expected.send_counts));
  EXPECT_TRUE(std::ranges::equal(counts("receive_counts"), expected.receive_counts));
}

/// A micro-batch's layout as C has it, with the tree of its segments.
struct LayoutInC {
  std::vector<std::int64_t> parents, tokens, ends;
  evenkeel_tree tree{};
  evenkeel_layout layout{};
};

std::unique_ptr<LayoutInC> layout_in_c(const evenkeel_step* step, std::int64_t m) {
  evenkeel_micro_batch view{};
  EXPECT_EQ(evenkeel_step_micro_batch(step, m, &view), EVENKEEL_OK);
  auto made_up = std::make_unique<LayoutInC>();
  LayoutInC& made = *made_up;
  made.layout = {
      view.num_sequences, view.cu_seqlens, view.cu_seqlens_padded, view.alignment, view.context_size,
      view.cp_layout,     nullptr};
  if (view.shares_prefixes == 0) return made_up;
  const auto details =
      test::made<evenkeel_arrays>([&](auto** arrays) { return evenkeel_step_details(step, m, arrays); });
  made.parents = values_of(details.get(), "parents");
  made.tokens = values_of(details.get(), "tokens");
  made.ends = values_of(details.get(), "sample_ends");
  made.tree = {std::ssize(made.parents), made.parents.data(), made.tokens.data(), std::ssize(made.ends),
               made.ends.data()};
  made.layout.tree = &made.tree;
  return made_up;
}

void expect_equal_cuts(const evenkeel_step* step, std::int64_t m, const MicroBatch& expected) {
  const std::unique_ptr<LayoutInC> in_c = layout_in_c(step, m);
  const evenkeel_layout* const layout = &in_c->layout;
  const evenkeel_member member{expected.tensors.cp_rank.value(), 0, 1};
  expect_equal_route(expected.route<std::int32_t>(RowCut::zigzag, RowCut::flat), [&](auto** arrays) {
    return evenkeel_layout_route(layout, EVENKEEL_ZIGZAG, EVENKEEL_FLAT, &member, EVENKEEL_INT32, arrays);
  });
  expect_equal_route(expected.halo_route<std::int64_t>(RowCut::contiguous, 4), [&](auto** arrays) {
    return evenkeel_layout_halo_route(layout, EVENKEEL_CONTIGUOUS, 4, &member, EVENKEEL_INT64, arrays);
  });

  const auto found = made<evenkeel_arrays>(
      [&](auto** arrays) { return evenkeel_layout_sequence_runs(layout, EVENKEEL_FLAT, &member, arrays); });
  const auto of = [&](const char* name, std::size_t run) { return values_of(found.get(), name).at(run); };
  const std::vector<SequenceRun> runs = expected.sequence_runs(RowCut::flat);
  ASSERT_EQ(values_of(found.get(), "sequence").size(), runs.size());
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const SequenceRun seen{of("sequence", r),
                           {of("begin", r), of("end", r)},
                           of("first", r),
                           of("tokens", r),
                           static_cast<int>(of("member_before", r)),
                           of("run_before", r),
                           of("row_before", r),
                           of("sequence_before", r)};
    EXPECT_EQ(seen, runs[r]);
  }
}

/// Returns the position in the block that is sent to a device; -1: elsewhere.
std::int64_t offset_in_arena(const evenkeel_micro_batch& view, const void* data) {
  const auto offset = static_cast<const std::byte*>(data) - static_cast<const std::byte*>(view.arena);
  return view.arena != nullptr && 0 <= offset && offset < view.arena_bytes ? offset : -1;
}

void expect_equal_place(const evenkeel_micro_batch& view, const evenkeel_field& field,
                        const MicroBatchArena& expected_arena, const Column& expected) {
  const std::optional<std::size_t> offset = expected_arena.offset_of(expected.bytes());
  if (field.bytes > 0) {
    EXPECT_EQ(offset_in_arena(view, field.data), offset ? static_cast<std::int64_t>(*offset) : -1)
        << field.name;
  }
  if (offset && expected.spec().kind == FieldKind::rows) {
    EXPECT_EQ(offset_in_arena(view, field.offsets) % 256, 0) << field.name;
  }
}

void expect_equal_micro_batch(const evenkeel_step* step, std::int64_t m, const MicroBatch& expected) {
  evenkeel_micro_batch view{};
  ASSERT_EQ(evenkeel_step_micro_batch(step, m, &view), EVENKEEL_OK);
  const PackedMicroBatch& tensors = expected.tensors;
  ASSERT_EQ(view.num_fields, std::ssize(tensors.fields));
  EXPECT_EQ(view.arena_bytes, std::ssize(tensors.arena.bytes()));
  for (std::int64_t f = 0; f < view.num_fields; ++f) {
    evenkeel_field field{};
    const Column& column = tensors.fields[static_cast<std::size_t>(f)];
    ASSERT_EQ(evenkeel_step_find_field(step, m, column.spec().name.c_str(), &field), EVENKEEL_OK);
    expect_equal(field, column);
    expect_equal_place(view, field, tensors.arena, column);
  }
  ASSERT_EQ(view.num_samples, std::ssize(tensors.samples));
  for (std::size_t i = 0; i < tensors.samples.size(); ++i) expect_equal(view.samples[i], tensors.samples[i]);
  const PackedLayout& layout = tensors.layout;
  ASSERT_EQ(view.num_sequences, layout.size());
  const auto sums = static_cast<std::size_t>(layout.size()) + 1;
  EXPECT_TRUE(std::ranges::equal(std::span(view.cu_seqlens, sums), layout.cu_seqlens()));
  EXPECT_TRUE(std::ranges::equal(std::span(view.cu_seqlens_padded, sums), layout.cu_seqlens_padded()));
  if (view.arena_bytes > 0) {
    EXPECT_EQ(offset_in_arena(view, view.cu_seqlens) % 256, 0);
    EXPECT_EQ(offset_in_arena(view, view.cu_seqlens_padded) % 256, 0);
  }
  EXPECT_EQ(view.alignment, layout.alignment());
  EXPECT_EQ(view.context_size, layout.cp().size);
  EXPECT_EQ(view.cp_layout == EVENKEEL_ZIGZAG, layout.cp().layout == CpLayout::zigzag);
  EXPECT_EQ(view.context_first, expected.context.first.value());
  EXPECT_EQ(view.context_rank, tensors.cp_rank.value());
  EXPECT_EQ(view.is_shape, tensors.shape ? 1 : 0);
  EXPECT_EQ(view.shares_prefixes, tensors.shared ? 1 : 0);
  EXPECT_EQ(view.max_seqlen, layout.max_seqlen());
  EXPECT_EQ(view.local_rows, layout.local_rows());
  EXPECT_EQ(view.padded_length, tensors.padded_length);
  EXPECT_EQ(view.num_tokens, tensors.num_tokens());
  EXPECT_EQ(view.empty, tensors.empty() ? 1 : 0);
  EXPECT_EQ(view.mini_batch, expected.mini_batch.value());
  EXPECT_EQ(view.scale, expected.loss.scale);
  EXPECT_EQ(view.mean_weight, expected.loss.mean_weight);
  expect_equal_cuts(step, m, expected);
}

void expect_equal_step(const evenkeel_step* step, const Step& expected) {
  evenkeel_step_info info{};
  ASSERT_EQ(evenkeel_step_get_info(step, &info), EVENKEEL_OK);
  EXPECT_EQ(info.index, expected.index);
  EXPECT_EQ(info.profile, expected.profile);
  EXPECT_EQ(info.num_samples, expected.num_samples);
  EXPECT_EQ(info.num_tokens, expected.num_tokens);
  EXPECT_EQ(info.num_loss_tokens, expected.num_loss_tokens);
  ASSERT_EQ(info.num_micro_batches, std::ssize(expected.micro_batches));
  EXPECT_EQ(evenkeel_step_num_micro_batches(step), info.num_micro_batches);
  for (std::int64_t m = 0; m < info.num_micro_batches; ++m)
    expect_equal_micro_batch(step, m, expected.micro_batches[static_cast<std::size_t>(m)]);
}

/// Returns the results that this rank computes, for each kind, from the packed tokens.
std::vector<Column> results_of(const PackedMicroBatch& tensors) {
  std::vector<Column> results;
  for (const auto& [name, kind, trailing] : {std::tuple{"scores", FieldKind::token, 2},
                                             {"log_probs", FieldKind::response_token, 1},
                                             {"values", FieldKind::sample, 1}}) {
    FieldSpec spec{name, DType::int64, kind, {}};
    if (trailing > 1) spec.trailing = {trailing};
    Column column(spec, tensors.rows_of(kind));
    const auto tokens = tensors.find("input_ids")->values<std::int64_t>();
    const auto values = column.values<std::int64_t>();
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = kind == FieldKind::sample ? tensors.samples[i].id.value() * 3
                                            : tokens[i / static_cast<std::size_t>(trailing)] * 7;
    results.push_back(std::move(column));
  }
  std::vector<std::int64_t> counts;
  for (const SampleShape& sample : tensors.samples) counts.push_back((sample.id.value() + 2) % 3);
  Column& calls = results.emplace_back(FieldSpec{"calls", DType::int64, FieldKind::rows, {2}},
                                       SampleRows::from_counts(counts));
  for (std::size_t i = 0; i < tensors.samples.size(); ++i) {
    const RowRange rows = calls.samples()[static_cast<std::int64_t>(i)];
    for (std::int64_t e = 2 * rows.begin; e < 2 * rows.end; ++e)
      calls.values<std::int64_t>()[static_cast<std::size_t>(e)] = 100 * tensors.samples[i].id.value() + e;
  }
  return results;
}

struct Results {
  StepResults of_cpp;
  Held<evenkeel_results> of_c;
};

Results compute(const Step& step, const evenkeel_step* c_step) {
  Results results{StepResults(step.micro_batches.size()),
                  made<evenkeel_results>([&](auto** r) { return evenkeel_results_create(c_step, r); })};
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    for (const Column& column : results_of(step.micro_batches[m].tensors)) {
      const evenkeel_field field = c_field(column);
      if (is_counted(column.spec().kind)) {
        std::vector<std::int64_t> counts;
        for (std::int64_t i = 0; i < column.samples().size(); ++i)
          counts.push_back(column.samples()[i].size());
        results.of_cpp.put(m, column.spec(), counts, column.bytes());
      } else {
        results.of_cpp.put(m, column.spec(), column.bytes());
      }
      EXPECT_EQ(evenkeel_results_put(results.of_c.get(), static_cast<std::int64_t>(m), &field), EVENKEEL_OK);
    }
  }
  return results;
}

Held<evenkeel_step> c_step(const Held<evenkeel_service>& service, const Held<evenkeel_samples>& samples,
                           const char* profile) {
  return made<evenkeel_step>(
      [&](auto** step) { return evenkeel_service_step(service.get(), samples.get(), profile, step); });
}

TEST(CService, delivers_the_same_bytes_as_the_cpp_service_and_collects_results) {
  const boost::mpi::communicator world;
  for (const std::string& yaml : jobs(world.size())) {
    SCOPED_TRACE(yaml);
    DataService expected(world, parse_config(yaml, "job"));
    const Held<evenkeel_service> service = c_service(yaml);
    const Held<evenkeel_samples> samples = c_samples(share_of(world));
    for (const char* profile : {"", "log_prob", static_cast<const char*>(nullptr)}) {
      const std::string_view name = profile == nullptr ? "" : profile;
      const Step step = expected.step(share_of(world), name);
      const Held<evenkeel_step> found = c_step(service, samples, profile);
      expect_equal_step(found.get(), step);
      const bool shares = yaml.find("prefix") != std::string::npos;
      if (shares) continue;  // result rows are predictions
      const Results results = compute(step, found.get());
      const auto home = made<evenkeel_samples>([&](auto** s) {
        return evenkeel_service_collect(service.get(), found.get(), results.of_c.get(), s);
      });
      expect_equal(home.get(), expected.collect(step, results.of_cpp));
      const int root = world.size() - 1;
      const auto all = made<evenkeel_samples>([&](auto** s) {
        return evenkeel_service_collect_on(service.get(), found.get(), results.of_c.get(), root, s);
      });
      expect_equal(all.get(), expected.collect_on(step, results.of_cpp, root));
    }
    expect_equal(samples.get(), share_of(world));  // the samples still belong to the caller
  }
}

TEST(CService, runs_a_step_again_with_collected_fields) {
  const boost::mpi::communicator world;
  for (const std::string& yaml : jobs(world.size())) {
    if (yaml.find("prefix") != std::string::npos) continue;
    DataService expected(world, parse_config(yaml, "job"));
    const Held<evenkeel_service> service = c_service(yaml);
    const Held<evenkeel_samples> samples = c_samples(share_of(world));
    Step step = expected.step(share_of(world), "log_prob");
    const Held<evenkeel_step> found = c_step(service, samples, "log_prob");
    const Results results = compute(step, found.get());
    const RaggedBatch added = expected.collect(step, results.of_cpp);
    const auto home = made<evenkeel_samples>([&](auto** s) {
      return evenkeel_service_collect(service.get(), found.get(), results.of_c.get(), s);
    });
    step = expected.step(std::move(step), "update", added);
    ASSERT_EQ(evenkeel_service_step_again(service.get(), found.get(), "update", home.get()), EVENKEEL_OK);
    expect_equal_step(found.get(), step);
    step = expected.step(std::move(step), "aligned");
    ASSERT_EQ(evenkeel_service_step_again(service.get(), found.get(), "aligned", nullptr), EVENKEEL_OK);
    expect_equal_step(found.get(), step);
  }
}

TEST(CService, reports_the_ranks_coordinates_and_the_duration_of_phases) {
  const boost::mpi::communicator world;
  const std::string yaml = world.size() % 2 == 0 ? "mesh: {tp: 2}" : "mesh: {tp: 1}";
  const Held<evenkeel_service> service = c_service(yaml);
  const DataService expected(world, parse_config(yaml, "job"));
  evenkeel_place place{};
  ASSERT_EQ(evenkeel_service_get_place(service.get(), &place), EVENKEEL_OK);
  EXPECT_EQ(place.rank, world.rank());
  EXPECT_EQ(place.num_ranks, world.size());
  EXPECT_EQ((GridPoint{place.tp, place.cp, place.dp, place.pp}), expected.mesh().here());
  EXPECT_EQ((GridPoint{place.tp_size, place.cp_size, place.dp_size, place.pp_size}),
            expected.mesh().grid().sizes());
  EXPECT_EQ(place.reports_results, reports_results(expected.mesh()) ? 1 : 0);
  const Held<evenkeel_step> step = c_step(service, c_samples(share_of(world)), nullptr);
  evenkeel_seconds seconds{};
  evenkeel_step_info info{};
  ASSERT_EQ(evenkeel_step_get_seconds(step.get(), &seconds), EVENKEEL_OK);
  ASSERT_EQ(evenkeel_step_get_info(step.get(), &info), EVENKEEL_OK);
  EXPECT_DOUBLE_EQ(info.waited_seconds, seconds.read + seconds.gather + seconds.plan + seconds.agree +
                                            seconds.exchange + seconds.pack);
}

TEST(CService, reports_which_ranks_run_a_micro_batch_together) {
  const boost::mpi::communicator world;
  const Held<evenkeel_service> service =
      c_service("mesh: {cp: flexible}\nbalance: {meet: step}\nmicro_batch: {max_tokens_per_rank: 100}\n");
  const Held<evenkeel_step> step = c_step(service, c_samples(share_of(world)), nullptr);
  for (std::int64_t m = 0; m < evenkeel_step_num_micro_batches(step.get()); ++m) {
    evenkeel_micro_batch view{};
    ASSERT_EQ(evenkeel_step_micro_batch(step.get(), m, &view), EVENKEEL_OK);
    EXPECT_EQ(view.context_first + view.context_rank, world.rank());
    MPI_Comm comm = MPI_COMM_NULL;
    ASSERT_EQ(evenkeel_service_context(service.get(), step.get(), m, &comm), EVENKEEL_OK);
    const boost::mpi::communicator ranks(comm, boost::mpi::comm_attach);
    EXPECT_EQ(ranks.size(), view.context_size);
    EXPECT_EQ(ranks.rank(), view.context_rank);
  }
  EXPECT_EQ(evenkeel_service_context(service.get(), nullptr, 0, nullptr), EVENKEEL_ERROR_ARGUMENT);
}

TEST(CService, lists_all_groups_that_may_run_a_micro_batch) {
  const boost::mpi::communicator world;
  const int half = world.size() % 2 == 0 ? 2 : 1;
  const Held<evenkeel_service> fixed = c_service("mesh: {cp: " + std::to_string(half) + "}");
  const auto groups = made<evenkeel_arrays>(
      [&](auto** arrays) { return evenkeel_service_context_groups(fixed.get(), arrays); });
  std::vector<std::int32_t> ranks;
  std::vector<std::int64_t> offsets{0};
  for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
  for (int end = half; end <= world.size(); end += half) offsets.push_back(end);
  EXPECT_EQ(values_of<std::int32_t>(groups.get(), "ranks"), ranks);
  EXPECT_EQ(values_of(groups.get(), "offsets"), offsets);
  const Held<evenkeel_service> flexible =
      c_service("mesh: {cp: flexible}\nbalance: {meet: step}\nmicro_batch: {max_tokens_per_rank: 100}\n");
  const auto all = made<evenkeel_arrays>(
      [&](auto** arrays) { return evenkeel_service_context_groups(flexible.get(), arrays); });
  EXPECT_EQ(std::ssize(values_of(all.get(), "offsets")) - 1,
            std::ssize(context_groups(world.size(), world.size())));
}

TEST(CService, reports_details_of_shared_prefixes) {
  const boost::mpi::communicator world;
  const Held<evenkeel_service> service = c_service(
      "micro_batch: {max_tokens: 1000}\nprefix: {share: true, schedule: dfs}\nbalance: {meet: step}");
  const Held<evenkeel_step> step = c_step(service, c_samples(share_of(world)), nullptr);
  for (std::int64_t m = 0; m < evenkeel_step_num_micro_batches(step.get()); ++m) {
    evenkeel_micro_batch view{};
    ASSERT_EQ(evenkeel_step_micro_batch(step.get(), m, &view), EVENKEEL_OK);
    EXPECT_EQ(view.shares_prefixes, 1);
    const auto details =
        made<evenkeel_arrays>([&](auto** arrays) { return evenkeel_step_details(step.get(), m, arrays); });
    EXPECT_EQ(std::ssize(values_of(details.get(), "parents")), view.num_sequences);
    EXPECT_EQ(std::ssize(values_of(details.get(), "prediction_offsets")), view.num_samples + 1);
    EXPECT_FALSE(values_of(details.get(), "schedule_pieces").empty());
  }
}

TEST(CService, lends_fields_that_may_outlive_their_step) {
  const boost::mpi::communicator world;
  const Held<evenkeel_service> service = c_service("micro_batch: {max_tokens: 1000}");
  Held<evenkeel_step> step = c_step(service, c_samples(share_of(world)), nullptr);
  evenkeel_micro_batch view{};
  ASSERT_EQ(evenkeel_step_micro_batch(step.get(), 0, &view), EVENKEEL_OK);
  std::vector<evenkeel_field> fields(static_cast<std::size_t>(view.num_fields));
  const auto memory = made<evenkeel_memory>(
      [&](auto** kept) { return evenkeel_step_lend(step.get(), 0, fields.data(), kept); });
  EXPECT_EQ(fields.front().is_shared, 0);
  const std::size_t bytes = static_cast<std::size_t>(fields.front().bytes);
  const std::string before(static_cast<const char*>(fields.front().data), bytes);
  evenkeel_field again{};
  ASSERT_EQ(evenkeel_step_find_field(step.get(), 0, fields.front().name, &again), EVENKEEL_OK);
  EXPECT_EQ(again.data, fields.front().data);
  EXPECT_EQ(again.is_shared, 1);
  step.reset();
  c_step(service, c_samples(share_of(world)), nullptr);
  EXPECT_EQ(std::string(static_cast<const char*>(fields.front().data), bytes), before);
  EXPECT_EQ(evenkeel_step_lend(nullptr, 0, fields.data(), nullptr), EVENKEEL_ERROR_ARGUMENT);
}

/// A group of one process that counts its calls.
struct AloneGroup {
  int calls = 0;
  int groups = 1;
};

evenkeel_group_calls calls_of_one_process(bool fails = false) {
  using Group = AloneGroup;
  evenkeel_group_calls calls{};
  calls.broadcast = [](void* group, void*, std::int64_t, std::int32_t) -> evenkeel_status {
    ++static_cast<Group*>(group)->calls;
    return EVENKEEL_OK;
  };
  calls.all_gather = [](void* group, const void* mine, std::int64_t bytes, void* all) -> evenkeel_status {
    ++static_cast<Group*>(group)->calls;
    std::memcpy(all, mine, static_cast<std::size_t>(bytes));
    return EVENKEEL_OK;
  };
  calls.all_gather_lists = [](void* group, const void* mine, const std::int64_t* bytes,
                              void* all) -> evenkeel_status {
    ++static_cast<Group*>(group)->calls;
    if (*bytes > 0) std::memcpy(all, mine, static_cast<std::size_t>(*bytes));
    return EVENKEEL_OK;
  };
  calls.all_reduce = [](void*, std::int64_t*, std::int64_t, std::int32_t) -> evenkeel_status {
    return EVENKEEL_OK;
  };
  calls.all_to_all = [](void*, const void*, const std::int64_t*, void*,
                        const std::int64_t*) -> evenkeel_status { return EVENKEEL_OK; };
  calls.split = [](void* group, std::int32_t, std::int32_t color, std::int32_t, void** made,
                   std::int32_t* rank, std::int32_t* size) -> evenkeel_status {
    if (color < 0) return EVENKEEL_OK;
    ++static_cast<Group*>(group)->groups;
    *made = group;
    *rank = 0;
    *size = 1;
    return EVENKEEL_OK;
  };
  calls.release = [](void* group) { --static_cast<Group*>(group)->groups; };
  if (fails) {
    calls.all_reduce = [](void*, std::int64_t*, std::int64_t, std::int32_t) -> evenkeel_status {
      return evenkeel_set_last_error(EVENKEEL_ERROR_INPUT, "", "the cable is out", "", -1);
    };
  }
  return calls;
}

TEST(CService, works_over_ranks_that_the_caller_connects) {
  const boost::mpi::communicator alone = boost::mpi::communicator().split(boost::mpi::communicator().rank());
  AloneGroup group;
  const evenkeel_group_calls calls = calls_of_one_process();
  auto ranks = made<evenkeel_ranks>(
      [&](auto** handle) { return evenkeel_ranks_create(&calls, &group, 0, 1, 1, handle); });
  const std::string yaml = "micro_batch: {max_tokens: 1000}";
  auto service = made<evenkeel_service>(
      [&](auto** handle) { return evenkeel_service_create(ranks.get(), c_config(yaml).get(), handle); });
  ranks.reset();  // the service keeps what it needs
  const Held<evenkeel_step> step = c_step(service, c_samples(share_of(alone)), nullptr);
  expect_equal_step(step.get(), DataService(alone, parse_config(yaml, "job")).step(share_of(alone)));
  MPI_Comm comm = MPI_COMM_WORLD;
  EXPECT_EQ(evenkeel_service_context(service.get(), step.get(), 0, &comm), EVENKEEL_OK);
  EXPECT_EQ(comm, MPI_COMM_NULL);
  EXPECT_GT(group.calls, 0);
  service.reset();
  EXPECT_EQ(group.groups, 0) << "every group is released";
}

TEST(CService, reports_the_error_of_a_callback) {
  AloneGroup group;
  const evenkeel_group_calls calls = calls_of_one_process(true);
  const auto ranks = made<evenkeel_ranks>(
      [&](auto** handle) { return evenkeel_ranks_create(&calls, &group, 0, 1, 0, handle); });
  evenkeel_service* service = nullptr;
  EXPECT_EQ(evenkeel_service_create(ranks.get(), c_config("{}").get(), &service), EVENKEEL_ERROR_MPI);
  EXPECT_TRUE(last_error_has("process group, all_reduce: the cable is out"));
  evenkeel_ranks* none = nullptr;
  EXPECT_EQ(evenkeel_ranks_create(&calls, &group, 1, 1, 0, &none), EVENKEEL_ERROR_ARGUMENT);
  const evenkeel_group_calls empty{};
  EXPECT_EQ(evenkeel_ranks_create(&empty, &group, 0, 1, 0, &none), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(none, nullptr);
}

TEST(CService, adapts_its_costs_to_reported_times) {
  const boost::mpi::communicator world;
  const std::string yaml = "balance: {cost: measured}\nmicro_batch: {max_tokens: 200}";
  DataService expected(world, parse_config(yaml, "job"));
  const Held<evenkeel_service> service = c_service(yaml);
  const Held<evenkeel_samples> samples = c_samples(share_of(world));
  for (int n = 0; n < 3; ++n) {
    const Step step = expected.step(share_of(world));
    const Held<evenkeel_step> found = c_step(service, samples, nullptr);
    expect_equal_step(found.get(), step);
    for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
      const double seconds = 0.1 + 0.01 * static_cast<double>(m);
      expected.report_time(step, m, seconds);
      EXPECT_EQ(
          evenkeel_service_report_time(service.get(), found.get(), static_cast<std::int64_t>(m), seconds),
          EVENKEEL_OK);
    }
  }
}

TEST(CService, resumes_from_its_saved_state) {
  const boost::mpi::communicator world;
  const std::string yaml = "micro_batch: {max_tokens: 1000}";
  Held<evenkeel_service> service = c_service(yaml);
  const Held<evenkeel_samples> samples = c_samples(share_of(world));
  c_step(service, samples, nullptr);
  std::int64_t bytes = 0;
  const auto state =
      made<char>([&](char** text) { return evenkeel_service_state(service.get(), text, &bytes); });
  EXPECT_EQ(std::string(state.get()).size(), static_cast<std::size_t>(bytes));
  service.reset();
  std::int64_t next_step = 0;
  std::int32_t has_sources = 1;
  ASSERT_EQ(evenkeel_state_inspect(state.get(), bytes, &next_step, &has_sources), EVENKEEL_OK);
  EXPECT_EQ(next_step, 1);
  EXPECT_EQ(has_sources, 0);
  EXPECT_EQ(evenkeel_state_inspect("nonsense", 8, &next_step, &has_sources), EVENKEEL_ERROR_INPUT);
  const Held<evenkeel_config> config = c_config(yaml);
  const auto resumed = made<evenkeel_service>([&](auto** s) {
    return evenkeel_service_resume(c_ranks().get(), config.get(), state.get(), bytes, 0, s);
  });
  evenkeel_step_info info{};
  ASSERT_EQ(evenkeel_step_get_info(c_step(resumed, samples, nullptr).get(), &info), EVENKEEL_OK);
  EXPECT_EQ(info.index, 1);
}

TEST(CService, works_on_some_of_the_ranks_and_its_steps_outlive_it) {
  const boost::mpi::communicator world;
  const boost::mpi::communicator half = world.split(world.rank() % 2);
  Held<evenkeel_service> service = c_service("micro_batch: {max_tokens: 1000}", half);
  Held<evenkeel_samples> samples = c_samples(share_of(half));
  const Held<evenkeel_step> step = c_step(service, samples, nullptr);
  const Step expected =
      DataService(half, parse_config("micro_batch: {max_tokens: 1000}", "job")).step(share_of(half));
  samples.reset();
  service.reset();
  expect_equal_step(step.get(), expected);
}

}  // namespace
}  // namespace evenkeel::test
