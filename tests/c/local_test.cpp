// Functions of the C API on one rank, without MPI running.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "c/failures.hpp"
#include "c/held.hpp"
#include "support/made_up_batch.hpp"
#include "support/scratch_folder.hpp"

extern "C" int evenkeel_header_in_c(void);

namespace evenkeel::test {
namespace {

using testing_support::made_up_batch;
using testing_support::made_up_fields;
using testing_support::made_up_shape;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

TEST(CLocal, header_is_the_same_in_c_and_cpp) {
  EXPECT_EQ(evenkeel_header_in_c(), static_cast<int>(sizeof(evenkeel_field) + sizeof(evenkeel_sample) +
                                                     sizeof(evenkeel_step_info) + sizeof(evenkeel_seconds) +
                                                     sizeof(evenkeel_micro_batch) + sizeof(evenkeel_place)));
}

TEST(CLocal, version_has_three_numbers) {
  EXPECT_EQ(std::ranges::count(std::string(evenkeel_version()), '.'), 2);
}

TEST(CLocal, every_status_has_a_name) {
  for (evenkeel_status status = EVENKEEL_OK; status <= EVENKEEL_END_OF_SAMPLES; ++status)
    EXPECT_STRNE(evenkeel_status_name(status), "unknown");
  EXPECT_STREQ(evenkeel_status_name(EVENKEEL_END_OF_SAMPLES + 1), "unknown");
  EXPECT_STREQ(evenkeel_status_name(-1), "unknown");
}

TEST(CLocal, every_exception_becomes_a_status) {
  using c::run_guarded;
  EXPECT_EQ(run_guarded([] {}), EVENKEEL_OK);
  EXPECT_EQ(run_guarded([] { throw ConfigError("a", "b"); }), EVENKEEL_ERROR_CONFIG);
  EXPECT_EQ(run_guarded([] { throw InputError("a", "b"); }), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(run_guarded([] { throw LimitError("a", "b"); }), EVENKEEL_ERROR_LIMIT);
  EXPECT_EQ(run_guarded([] { throw MeshError("a", "b"); }), EVENKEEL_ERROR_MESH);
  EXPECT_EQ(run_guarded([] { throw IoError("a", "b"); }), EVENKEEL_ERROR_IO);
  EXPECT_EQ(run_guarded([] { throw MpiError("a", "b"); }), EVENKEEL_ERROR_MPI);
  EXPECT_EQ(run_guarded([] { throw std::bad_alloc(); }), EVENKEEL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(run_guarded([] { throw c::WrongArgument("a", "b"); }), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(run_guarded([] { throw std::logic_error("a bug"); }), EVENKEEL_ERROR_INTERNAL);
  EXPECT_EQ(run_guarded([] { throw 7; }), EVENKEEL_ERROR_INTERNAL);
}

TEST(CLocal, errors_have_a_place_and_a_hint_and_are_local_to_their_thread) {
  evenkeel_config* config = nullptr;
  EXPECT_EQ(evenkeel_config_parse("micro_batch: {max_token: 5}", "job.yaml", nullptr, 0, &config),
            EVENKEEL_ERROR_CONFIG);
  EXPECT_EQ(config, nullptr);
  const std::string line = evenkeel_last_error_message();
  EXPECT_NE(line.find("job.yaml:1: micro_batch.max_token"), std::string::npos) << line;
  EXPECT_NE(std::string(evenkeel_last_error_where()).find("job.yaml:1"), std::string::npos);
  EXPECT_STRNE(evenkeel_last_error_what(), "");
  EXPECT_STRNE(evenkeel_last_error_hint(), "");
  EXPECT_EQ(evenkeel_last_error_rank(), -1);
  std::thread([] { EXPECT_STREQ(evenkeel_last_error_message(), ""); }).join();
  c_config("{}");
  EXPECT_EQ(evenkeel_last_error_message(), line);  // a successful call leaves it unchanged
}

TEST(CLocal, configurations_come_from_text_and_from_files_with_overrides) {
  const testing_support::ScratchFolder folder;
  const std::string path = (folder / "job.yaml").string();
  testing_support::write_text(path, "micro_batch: {max_tokens: 64}\n");
  const std::array overrides{"micro_batch.max_tokens=128", "mesh.cp=2"};
  const auto loaded = made<evenkeel_config>(
      [&](auto** config) { return evenkeel_config_load(path.c_str(), overrides.data(), 2, config); });
  const auto yaml_of = [](const Held<evenkeel_config>& config) {
    std::int64_t bytes = 0;
    const auto yaml =
        made<char>([&](char** text) { return evenkeel_config_to_yaml(config.get(), text, &bytes); });
    EXPECT_EQ(std::string(yaml.get()).size(), static_cast<std::size_t>(bytes));
    return std::string(yaml.get());
  };
  EXPECT_EQ(yaml_of(loaded), yaml_of(c_config("{micro_batch: {max_tokens: 128}, mesh: {cp: 2}}")));
  evenkeel_config* config = nullptr;
  EXPECT_EQ(evenkeel_config_load("/nowhere/job.yaml", nullptr, 0, &config), EVENKEEL_ERROR_IO);
  const std::array<const char*, 1> wrong{nullptr};
  EXPECT_EQ(evenkeel_config_parse("{}", nullptr, wrong.data(), 1, &config), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_config_parse("{}", nullptr, nullptr, 1, &config), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_config_parse("{}", nullptr, overrides.data(), -1, &config), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_config_parse(nullptr, nullptr, nullptr, 0, &config), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_config_parse("{}", nullptr, nullptr, 0, nullptr), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_config_load(nullptr, nullptr, 0, &config), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(config, nullptr);
}

TEST(CLocal, samples_hold_copies_of_fields_of_every_kind) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < 12; ++id) shapes.push_back(made_up_shape(id));
  const RaggedBatch batch = made_up_batch(std::move(shapes), made_up_fields());
  expect_equal(c_samples(batch).get(), batch);
  const auto none = made<evenkeel_samples>(
      [](auto** s) { return evenkeel_samples_create(0, nullptr, nullptr, nullptr, nullptr, s); });
  EXPECT_EQ(evenkeel_samples_count(none.get()), 0);
}

TEST(CLocal, samples_without_groups_form_their_own_groups) {
  const std::array<std::int64_t, 2> ids{5, 9};
  const std::array<std::int64_t, 2> lengths{1, 2};
  const auto samples = made<evenkeel_samples>([&](auto** s) {
    return evenkeel_samples_create(2, ids.data(), nullptr, lengths.data(), lengths.data(), s);
  });
  std::array<evenkeel_sample, 2> found{};
  ASSERT_EQ(evenkeel_samples_get(samples.get(), found.data()), EVENKEEL_OK);
  EXPECT_EQ(found[1].group, (std::uint64_t{1} << 63) + 9) << "above all groups that a program may say";
}

TEST(CLocal, groups_of_uids_equal_those_of_files) {
  EXPECT_EQ(evenkeel_group_of_uid("a prompt", 0), group_of_uid("a prompt"));
  EXPECT_EQ(evenkeel_group_of_uid(nullptr, 7), 7U);
  EXPECT_EQ(evenkeel_group_of_uid(nullptr, -7), group_of_uid(std::int64_t{-7}));
}

/// Counts blocks, and refuses those above a size.
struct CountedMemory {
  int blocks = 0;
  std::int64_t most = 0;
};

TEST(CLocal, fields_are_in_memory_that_the_caller_supplies) {
  CountedMemory memory{0, 1000};
  const evenkeel_allocate allocate = [](std::int64_t bytes, std::int64_t alignment, void* context,
                                        void** block) -> evenkeel_status {
    auto& counted = *static_cast<CountedMemory*>(context);
    if (bytes > counted.most)
      return evenkeel_set_last_error(EVENKEEL_ERROR_LIMIT, "memory", "is used up", "", -1);
    ++counted.blocks;
    *block = ::operator new(static_cast<std::size_t>(bytes), static_cast<std::align_val_t>(alignment));
    return EVENKEEL_OK;
  };
  const evenkeel_deallocate deallocate = [](void* block, void* context) {
    --static_cast<CountedMemory*>(context)->blocks;
    ::operator delete(block, static_cast<std::align_val_t>(alignof(std::max_align_t)));
  };
  EXPECT_EQ(evenkeel_set_allocator(allocate, nullptr, &memory), EVENKEEL_ERROR_ARGUMENT);
  ASSERT_EQ(evenkeel_set_allocator(allocate, deallocate, &memory), EVENKEEL_OK);
  const std::int64_t id = 0;
  const std::int64_t length = 200;
  const std::vector<std::int64_t> tokens(200);
  evenkeel_field field{};
  field.name = "x";
  field.dtype = EVENKEEL_UINT8;
  field.kind = EVENKEEL_TOKEN;
  field.rows = 200;
  field.data = tokens.data();
  const std::int64_t none = 0;
  auto samples = made<evenkeel_samples>(
      [&](auto** s) { return evenkeel_samples_create(1, &id, nullptr, &none, &length, s); });
  EXPECT_EQ(evenkeel_samples_add(samples.get(), &field), EVENKEEL_OK);
  EXPECT_EQ(memory.blocks, 1);
  field.name = "y";
  field.dtype = EVENKEEL_INT64;
  EXPECT_EQ(evenkeel_samples_add(samples.get(), &field), EVENKEEL_ERROR_LIMIT);
  EXPECT_STREQ(evenkeel_last_error_what(), "is used up");
  const evenkeel_allocate without_block = [](std::int64_t, std::int64_t, void*, void**) -> evenkeel_status {
    return EVENKEEL_OK;
  };
  ASSERT_EQ(evenkeel_set_allocator(without_block, deallocate, &memory), EVENKEEL_OK);
  EXPECT_EQ(evenkeel_samples_add(samples.get(), &field), EVENKEEL_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(evenkeel_set_allocator(nullptr, nullptr, nullptr), EVENKEEL_OK);
  samples.reset();
  EXPECT_EQ(memory.blocks, 0) << "blocks go back to the function that belongs to theirs";
}

TEST(CLocal, invalid_samples_are_errors) {
  const std::int64_t one = 1;
  const std::int64_t below = -1;
  evenkeel_samples* samples = nullptr;
  EXPECT_EQ(evenkeel_samples_create(-1, &one, nullptr, &one, &one, &samples), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_samples_create(most, &one, nullptr, &one, &one, &samples), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_samples_create(1, nullptr, nullptr, &one, &one, &samples), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_samples_create(1, &one, nullptr, nullptr, &one, &samples), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_samples_create(1, &one, nullptr, &one, nullptr, &samples), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_samples_create(1, &one, nullptr, &one, &one, nullptr), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_samples_create(1, &one, nullptr, &one, &below, &samples), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(evenkeel_samples_create(1, &one, nullptr, &most, &most, &samples), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(samples, nullptr);
}

TEST(CLocal, invalid_fields_are_errors_and_leave_the_samples_unchanged) {
  const std::int64_t one = 1;
  const auto held = made<evenkeel_samples>(
      [&](auto** s) { return evenkeel_samples_create(1, &one, nullptr, &one, &one, s); });
  evenkeel_samples* const samples = held.get();
  const std::array<std::int64_t, 2> values{1, 2};
  const std::array<std::int64_t, 2> huge{most, most};
  const evenkeel_field good{"x", EVENKEEL_INT64, EVENKEEL_TOKEN, 2, 0, nullptr, values.data(), 0,
                            0,   nullptr,        nullptr,        0};
  const auto with = [&](auto&& change) {
    evenkeel_field field = good;
    change(field);
    return evenkeel_samples_add(samples, &field);
  };
  EXPECT_EQ(evenkeel_samples_add(samples, nullptr), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_samples_add(nullptr, &good), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(with([](auto& f) { f.name = nullptr; }), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(with([](auto& f) { f.data = nullptr; }), EVENKEEL_ERROR_ARGUMENT);
  for (const std::int32_t number : {-1, 0, EVENKEEL_UINT32 + 1, 1 << 30})
    EXPECT_EQ(with([&](auto& f) { f.dtype = number; }), EVENKEEL_ERROR_ARGUMENT);
  for (const std::int32_t number : {-1, 0, EVENKEEL_BYTES + 1, 1 << 30})
    EXPECT_EQ(with([&](auto& f) { f.kind = number; }), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(with([](auto& f) { f.num_trailing = -1; }), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(with([](auto& f) { f.num_trailing = 1; }), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(with([&](auto& f) {
              f.num_trailing = 2;
              f.trailing = huge.data();
            }),
            EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(with([](auto& f) { f.rows = -1; }), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(with([](auto& f) { f.rows = most; }), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(with([](auto& f) { f.rows = 1; }), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(evenkeel_samples_num_fields(samples), 0);
  EXPECT_EQ(with([](auto&) {}), EVENKEEL_OK);
  EXPECT_EQ(with([](auto&) {}), EVENKEEL_ERROR_INPUT);  // the name is in use
  EXPECT_EQ(evenkeel_samples_num_fields(samples), 1);
  evenkeel_field field{};
  EXPECT_EQ(evenkeel_samples_field(samples, 1, &field), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_samples_field(samples, -1, &field), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_samples_find_field(samples, "y", &field), EVENKEEL_ERROR_INPUT);
  EXPECT_TRUE(last_error_has("fields are: x"));
  EXPECT_EQ(evenkeel_samples_find_field(samples, nullptr, &field), EVENKEEL_ERROR_ARGUMENT);
}

TEST(CLocal, rows_that_do_not_belong_to_samples_are_errors) {
  const std::array<std::int64_t, 2> ids{0, 1};
  const auto held = made<evenkeel_samples>(
      [&](auto** s) { return evenkeel_samples_create(2, ids.data(), nullptr, ids.data(), ids.data(), s); });
  const std::array<std::int64_t, 3> values{7, 8, 9};
  const std::array<std::int64_t, 3> offsets{0, 2, 3};
  const evenkeel_field good{"x", EVENKEEL_INT64, EVENKEEL_ROWS,  3,       0, nullptr, values.data(),
                            0,   ids.size(),     offsets.data(), nullptr, 0};
  const auto with = [&](auto&& change) {
    evenkeel_field field = good;
    change(field);
    return evenkeel_samples_add(held.get(), &field);
  };
  EXPECT_EQ(with([](auto& f) { f.offsets = nullptr; }), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(with([](auto& f) { f.num_samples = -1; }), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(with([](auto& f) { f.num_samples = 1; }),
            EVENKEEL_ERROR_INPUT);  // its last row does not belong to any sample
  EXPECT_EQ(with([](auto& f) { f.rows = 2; }), EVENKEEL_ERROR_INPUT);
  EXPECT_TRUE(last_error_has("has 2 rows, but its offsets end at 3"));
  const std::array<std::int64_t, 2> of_one_sample{0, 3};
  EXPECT_EQ(with([&](auto& f) {
              f.num_samples = 1;
              f.offsets = of_one_sample.data();
            }),
            EVENKEEL_ERROR_INPUT);
  for (const std::array<std::int64_t, 3>& wrong : {std::array<std::int64_t, 3>{1, 2, 3}, {0, 4, 3}})
    EXPECT_EQ(with([&](auto& f) { f.offsets = wrong.data(); }), EVENKEEL_ERROR_INPUT);
  const std::array<std::int64_t, 4> ranges{0, 2, 2, 3};
  EXPECT_EQ(with([&](auto& f) { f.ranges = ranges.data(); }), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(with([](auto& f) {
              f.kind = EVENKEEL_SAMPLE;
              f.rows = 2;
            }),
            EVENKEEL_ERROR_INPUT);
  EXPECT_TRUE(last_error_has("Set num_samples to 0, and offsets and ranges to NULL"));
  EXPECT_EQ(evenkeel_samples_num_fields(held.get()), 0);
  EXPECT_EQ(with([](auto&) {}), EVENKEEL_OK);
}

TEST(CLocal, null_is_an_error_everywhere_and_may_be_destroyed) {
  evenkeel_step_info info{};
  evenkeel_seconds seconds{};
  evenkeel_micro_batch view{};
  evenkeel_field field{};
  evenkeel_sample sample{};
  evenkeel_arrays* arrays = nullptr;
  evenkeel_memory* memory = nullptr;
  std::int64_t number = 0;
  std::int32_t flag = 0;
  evenkeel_place place{};
  char* text = nullptr;
  evenkeel_step* step = nullptr;
  evenkeel_stream* stream = nullptr;
  evenkeel_samples* samples = nullptr;
  evenkeel_results* results = nullptr;
  evenkeel_service* service = nullptr;
  for (const evenkeel_status status : {evenkeel_config_to_yaml(nullptr, &text, nullptr),
                                       evenkeel_samples_get(nullptr, &sample),
                                       evenkeel_samples_fail(nullptr, EVENKEEL_ERROR_IO),
                                       evenkeel_results_fail(nullptr, EVENKEEL_ERROR_IO),
                                       evenkeel_ranks_fail(nullptr, EVENKEEL_ERROR_IO),
                                       evenkeel_step_details(nullptr, 0, &arrays),
                                       evenkeel_step_lend(nullptr, 0, &field, &memory),
                                       evenkeel_service_context_groups(nullptr, &arrays),
                                       evenkeel_state_inspect(nullptr, 1, &number, &flag),
                                       evenkeel_service_create(nullptr, nullptr, &service),
                                       evenkeel_service_resume(nullptr, nullptr, nullptr, 0, 0, &service),
                                       evenkeel_stream_stop(nullptr),
                                       evenkeel_samples_field(nullptr, 0, &field),
                                       evenkeel_samples_find_field(nullptr, "x", &field),
                                       evenkeel_step_get_info(nullptr, &info),
                                       evenkeel_step_get_seconds(nullptr, &seconds),
                                       evenkeel_step_micro_batch(nullptr, 0, &view),
                                       evenkeel_step_find_field(nullptr, 0, "x", &field),
                                       evenkeel_results_create(nullptr, &results),
                                       evenkeel_results_put(nullptr, 0, &field),
                                       evenkeel_service_get_place(nullptr, &place),
                                       evenkeel_service_step(nullptr, nullptr, nullptr, &step),
                                       evenkeel_service_step_again(nullptr, nullptr, nullptr, nullptr),
                                       evenkeel_service_collect(nullptr, nullptr, nullptr, &samples),
                                       evenkeel_service_collect_on(nullptr, nullptr, nullptr, 0, &samples),
                                       evenkeel_service_report_time(nullptr, nullptr, 0, 1),
                                       evenkeel_service_state(nullptr, &text, nullptr),
                                       evenkeel_stream_create(nullptr, nullptr, 0, &stream),
                                       evenkeel_stream_next(nullptr, &step),
                                       evenkeel_stream_state(nullptr, &text, nullptr),
                                       evenkeel_stream_publish(nullptr, 1),
                                       evenkeel_stream_report_saved_before(nullptr, 1)})
    EXPECT_EQ(status, EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_samples_count(nullptr), 0);
  EXPECT_EQ(evenkeel_samples_num_fields(nullptr), 0);
  EXPECT_EQ(evenkeel_step_num_micro_batches(nullptr), 0);
  EXPECT_EQ(evenkeel_stream_num_steps(nullptr), 0);
  evenkeel_config_destroy(nullptr);
  evenkeel_ranks_destroy(nullptr);
  evenkeel_memory_destroy(nullptr);
  evenkeel_samples_destroy(nullptr);
  evenkeel_step_destroy(nullptr);
  evenkeel_results_destroy(nullptr);
  evenkeel_service_destroy(nullptr);
  evenkeel_stream_destroy(nullptr);
  evenkeel_buffer_free(nullptr);
}

TEST(CLocal, ranks_of_mpi_need_mpi_to_run) {
  evenkeel_ranks* ranks = nullptr;
  EXPECT_EQ(evenkeel_ranks_of_mpi(MPI_COMM_WORLD, &ranks), EVENKEEL_ERROR_MPI);
  EXPECT_EQ(ranks, nullptr);
}

}  // namespace
}  // namespace evenkeel::test
