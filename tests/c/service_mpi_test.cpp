// Steps, later passes and results through C, against the C++ service on the same samples.

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/communicator.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "c/held.hpp"
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

template <typename Integer>
void expect_equal_route(const evenkeel_route* route, const RowRoute<Integer>& expected) {
  evenkeel_route_view view{};
  ASSERT_EQ(evenkeel_route_get(route, &view), EVENKEEL_OK);
  const auto expect_list = [](const auto* first, std::int64_t count, const std::vector<Integer>& list) {
    EXPECT_TRUE(std::ranges::equal(std::span(first, static_cast<std::size_t>(count)), list));
  };
  expect_list(static_cast<const Integer*>(view.send_rows), view.num_send, expected.send_rows);
  expect_list(static_cast<const Integer*>(view.receive_rows), view.num_receive, expected.receive_rows);
  expect_list(view.send_counts, view.num_members, expected.send_counts);
  expect_list(view.receive_counts, view.num_members, expected.receive_counts);
}

void expect_equal_cuts(const evenkeel_step* step, std::int64_t m, const MicroBatch& expected) {
  evenkeel_route* route = nullptr;
  ASSERT_EQ(evenkeel_route_create(step, m, EVENKEEL_ZIGZAG, EVENKEEL_FLAT, 0, 1, EVENKEEL_INT32, &route),
            EVENKEEL_OK);
  expect_equal_route(route, expected.route<std::int32_t>(RowCut::zigzag, RowCut::flat));
  evenkeel_route_destroy(route);
  ASSERT_EQ(evenkeel_route_create_halo(step, m, EVENKEEL_CONTIGUOUS, 4, 0, 1, EVENKEEL_INT64, &route),
            EVENKEEL_OK);
  expect_equal_route(route, expected.halo_route<std::int64_t>(RowCut::contiguous, 4));
  evenkeel_route_destroy(route);
  EXPECT_EQ(evenkeel_route_create(step, m, 3, EVENKEEL_FLAT, 0, 1, EVENKEEL_INT32, &route),
            EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_route_create(step, m, EVENKEEL_ZIGZAG, EVENKEEL_FLAT, 0, 1, EVENKEEL_UINT8, &route),
            EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_route_create(step, m, EVENKEEL_ZIGZAG, EVENKEEL_FLAT, 1, 1, EVENKEEL_INT64, &route),
            EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(route, nullptr);

  const std::vector<SequenceRun> runs = expected.sequence_runs(RowCut::flat);
  std::vector<evenkeel_sequence_run> found(runs.size() + 1);
  std::int64_t count = 0;
  ASSERT_EQ(
      evenkeel_step_sequence_runs(step, m, EVENKEEL_FLAT, 0, 1, found.data(), std::ssize(found), &count),
      EVENKEEL_OK);
  ASSERT_EQ(count, std::ssize(runs));
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const evenkeel_sequence_run& run = found[r];
    const SequenceRun seen{run.sequence,
                           {run.begin, run.end},
                           run.first,
                           run.tokens,
                           static_cast<int>(run.member_before),
                           run.run_before,
                           run.row_before,
                           run.sequence_before};
    EXPECT_EQ(seen, runs[r]);
  }
}

/// Where in the block that a device is sent.
void expect_equal_place(const evenkeel_step* step, std::int64_t m, const evenkeel_field& field,
                        const MicroBatchArena& expected_arena, const Column& expected) {
  const std::optional<std::size_t> offset = expected_arena.offset_of(expected.bytes());
  EXPECT_EQ(evenkeel_step_arena_offset(step, m, field.data, field.bytes),
            offset ? static_cast<std::int64_t>(*offset) : -1)
      << field.name;
  if (offset && expected.spec().kind == FieldKind::rows) {
    const std::int64_t bytes = 8 * (field.num_samples + 1);
    EXPECT_EQ(evenkeel_step_arena_offset(step, m, field.offsets, bytes) % 256, 0) << field.name;
  }
}

void expect_equal_micro_batch(const evenkeel_step* step, std::int64_t m, const MicroBatch& expected) {
  evenkeel_micro_batch view{};
  ASSERT_EQ(evenkeel_step_micro_batch(step, m, &view), EVENKEEL_OK);
  const PackedMicroBatch& tensors = expected.tensors;
  ASSERT_EQ(view.num_fields, std::ssize(tensors.fields));
  const void* block = nullptr;
  std::int64_t block_bytes = 0;
  ASSERT_EQ(evenkeel_step_arena(step, m, &block, &block_bytes), EVENKEEL_OK);
  EXPECT_EQ(block_bytes, std::ssize(tensors.arena.bytes()));
  EXPECT_EQ(evenkeel_step_arena_offset(step, m, block, block_bytes), block_bytes > 0 ? 0 : -1);
  EXPECT_EQ(evenkeel_step_arena_offset(step, m, block, block_bytes + 1), -1);
  for (std::int64_t f = 0; f < view.num_fields; ++f) {
    evenkeel_field field{};
    ASSERT_EQ(evenkeel_step_field(step, m, f, &field), EVENKEEL_OK);
    expect_equal(field, tensors.fields[static_cast<std::size_t>(f)]);
    evenkeel_field named{};
    ASSERT_EQ(evenkeel_step_find_field(step, m, field.name, &named), EVENKEEL_OK);
    EXPECT_EQ(named.data, field.data);  // both are the packed memory
    expect_equal_place(step, m, field, tensors.arena, tensors.fields[static_cast<std::size_t>(f)]);
  }
  ASSERT_EQ(view.num_samples, std::ssize(tensors.samples));
  for (std::size_t i = 0; i < tensors.samples.size(); ++i) expect_equal(view.samples[i], tensors.samples[i]);
  const PackedLayout& layout = tensors.layout;
  ASSERT_EQ(view.num_sequences, layout.size());
  const auto sums = static_cast<std::size_t>(layout.size()) + 1;
  EXPECT_TRUE(std::ranges::equal(std::span(view.cu_seqlens, sums), layout.cu_seqlens()));
  EXPECT_TRUE(std::ranges::equal(std::span(view.cu_seqlens_padded, sums), layout.cu_seqlens_padded()));
  if (block_bytes > 0) {
    const std::int64_t bytes = std::ssize(layout.cu_seqlens()) * 4;
    EXPECT_EQ(evenkeel_step_arena_offset(step, m, view.cu_seqlens, bytes) % 256, 0);
    EXPECT_EQ(evenkeel_step_arena_offset(step, m, view.cu_seqlens_padded, bytes) % 256, 0);
  }
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
  ASSERT_EQ(info.num_micro_batches, std::ssize(expected.micro_batches));
  EXPECT_EQ(evenkeel_step_num_micro_batches(step), info.num_micro_batches);
  for (std::int64_t m = 0; m < info.num_micro_batches; ++m)
    expect_equal_micro_batch(step, m, expected.micro_batches[static_cast<std::size_t>(m)]);
}

/// What this rank computes, of each kind, from the packed tokens themselves.
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
                                       SampleRows::of_counts(counts));
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

TEST(CService, hands_out_the_bytes_of_the_cpp_service_and_brings_results_home) {
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
      if (shares) continue;  // whose rows of results are predictions
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
    expect_equal(samples.get(), share_of(world));  // they stay the caller's
  }
}

TEST(CService, passes_over_a_step_again_with_fields_that_were_collected) {
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

TEST(CService, says_where_the_rank_stands_and_how_long_phases_took) {
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
  EXPECT_DOUBLE_EQ(info.waited, seconds.read + seconds.gather + seconds.plan + seconds.agree +
                                    seconds.exchange + seconds.pack);
}

TEST(CService, says_who_runs_a_micro_batch_together) {
  const boost::mpi::communicator world;
  const Held<evenkeel_service> service =
      c_service("mesh: {cp: flexible}\nbalance: {meet: step}\nmicro_batch: {max_tokens_per_rank: 100}\n");
  const Held<evenkeel_step> step = c_step(service, c_samples(share_of(world)), nullptr);
  evenkeel_context_group group{};
  for (std::int64_t m = 0; m < evenkeel_step_num_micro_batches(step.get()); ++m) {
    ASSERT_EQ(evenkeel_step_context_group(step.get(), m, &group), EVENKEEL_OK);
    EXPECT_EQ(group.first + group.rank, world.rank());
    MPI_Comm comm = MPI_COMM_NULL;
    ASSERT_EQ(evenkeel_service_context(service.get(), step.get(), m, &comm), EVENKEEL_OK);
    const boost::mpi::communicator ranks(comm, boost::mpi::comm_attach);
    EXPECT_EQ(ranks.size(), group.size);
    EXPECT_EQ(ranks.rank(), group.rank);
  }
  EXPECT_EQ(evenkeel_step_context_group(step.get(), -1, &group), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_service_context(service.get(), nullptr, 0, nullptr), EVENKEEL_ERROR_ARGUMENT);
}

TEST(CService, follows_times_that_are_reported) {
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

TEST(CService, goes_on_where_it_was_saved) {
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
  const Held<evenkeel_config> config = c_config(yaml);
  const auto resumed = made<evenkeel_service>([&](auto** s) {
    return evenkeel_service_resume(MPI_COMM_WORLD, config.get(), state.get(), bytes, 0, s);
  });
  evenkeel_step_info info{};
  ASSERT_EQ(evenkeel_step_get_info(c_step(resumed, samples, nullptr).get(), &info), EVENKEEL_OK);
  EXPECT_EQ(info.index, 1);
}

TEST(CService, works_over_a_part_of_the_ranks_and_leaves_steps_behind_it) {
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
