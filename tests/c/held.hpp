#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/c/evenkeel_mpi.h"

// Owners of the opaque types of the C API, and helper functions of tests.

namespace evenkeel::test {

struct Destroy {
  void operator()(evenkeel_config* config) const { evenkeel_config_destroy(config); }
  void operator()(evenkeel_ranks* ranks) const { evenkeel_ranks_destroy(ranks); }
  void operator()(evenkeel_arrays* arrays) const { evenkeel_arrays_destroy(arrays); }
  void operator()(evenkeel_memory* memory) const { evenkeel_memory_destroy(memory); }
  void operator()(evenkeel_samples* samples) const { evenkeel_samples_destroy(samples); }
  void operator()(evenkeel_service* service) const { evenkeel_service_destroy(service); }
  void operator()(evenkeel_step* step) const { evenkeel_step_destroy(step); }
  void operator()(evenkeel_results* results) const { evenkeel_results_destroy(results); }
  void operator()(evenkeel_stream* stream) const { evenkeel_stream_destroy(stream); }
  void operator()(evenkeel_watchdog* watchdog) const { evenkeel_watchdog_destroy(watchdog); }
  void operator()(char* buffer) const { evenkeel_buffer_free(buffer); }
};

template <typename Handle>
using Held = std::unique_ptr<Handle, Destroy>;

/// Returns what `make` stores through a pointer; fails the test if it returns an error.
template <typename Handle, typename Make>
Held<Handle> made(Make&& make) {
  Handle* handle = nullptr;
  EXPECT_EQ(make(&handle), EVENKEEL_OK) << evenkeel_last_error_message();
  return Held<Handle>(handle);
}

inline Held<evenkeel_config> c_config(const std::string& yaml) {
  return made<evenkeel_config>(
      [&](auto** config) { return evenkeel_config_parse(yaml.c_str(), nullptr, nullptr, 0, config); });
}

inline Held<evenkeel_ranks> c_ranks(MPI_Comm comm = MPI_COMM_WORLD) {
  return made<evenkeel_ranks>([&](auto** ranks) { return evenkeel_ranks_of_mpi(comm, ranks); });
}

inline Held<evenkeel_service> c_service(const std::string& yaml, MPI_Comm comm = MPI_COMM_WORLD) {
  const Held<evenkeel_config> config = c_config(yaml);
  return made<evenkeel_service>(
      [&](auto** service) { return evenkeel_service_create(c_ranks(comm).get(), config.get(), service); });
}

/// Returns the column as a C caller would pass it.
inline evenkeel_field c_field(const Column& column) {
  const FieldSpec& spec = column.spec();
  return {spec.name.c_str(),
          static_cast<evenkeel_dtype>(spec.dtype) + 1,
          static_cast<evenkeel_kind>(spec.kind) + 1,
          column.rows(),
          std::ssize(spec.trailing),
          spec.trailing.data(),
          column.bytes().data(),
          0,
          column.samples().size(),
          is_counted(spec.kind) ? column.samples().offsets().data() : nullptr,
          nullptr,
          0};
}

/// Returns the same samples, created through the C API.
inline Held<evenkeel_samples> c_samples(const RaggedBatch& batch) {
  std::vector<std::int64_t> ids;
  std::vector<std::uint64_t> groups;
  std::vector<std::int64_t> prompts;
  std::vector<std::int64_t> responses;
  for (const SampleShape& shape : batch.samples()) {
    ids.push_back(shape.id.value());
    groups.push_back(shape.group);
    prompts.push_back(shape.prompt);
    responses.push_back(shape.response);
  }
  Held<evenkeel_samples> samples = made<evenkeel_samples>([&](auto** handle) {
    return evenkeel_samples_create(batch.size(), ids.data(), groups.data(), prompts.data(), responses.data(),
                                   handle);
  });
  for (const Column& column : batch.fields()) {
    const evenkeel_field field = c_field(column);
    EXPECT_EQ(evenkeel_samples_add(samples.get(), &field), EVENKEEL_OK) << evenkeel_last_error_message();
  }
  return samples;
}

inline void expect_equal(const evenkeel_field& field, const Column& expected) {
  const FieldSpec& spec = expected.spec();
  EXPECT_EQ(field.name, spec.name);
  EXPECT_EQ(field.dtype, static_cast<evenkeel_dtype>(spec.dtype) + 1);
  EXPECT_EQ(field.kind, static_cast<evenkeel_kind>(spec.kind) + 1);
  EXPECT_EQ(field.rows, expected.rows());
  EXPECT_EQ(std::vector(field.trailing, field.trailing + field.num_trailing), spec.trailing);
  ASSERT_EQ(field.num_samples, expected.samples().size());
  EXPECT_EQ(field.offsets != nullptr, is_counted(spec.kind) && !expected.samples().are_shared());
  EXPECT_EQ(field.ranges != nullptr, expected.samples().are_shared() && field.num_samples > 0);
  for (std::int64_t i = 0; i < field.num_samples; ++i) {
    const std::int64_t* const own = field.offsets != nullptr ? field.offsets + i : field.ranges + 2 * i;
    EXPECT_EQ((RowRange{own[0], own[1]}), expected.samples()[i]) << spec.name;
  }
  ASSERT_EQ(field.bytes, std::ssize(expected.bytes()));
  if (field.bytes == 0) return;
  EXPECT_EQ(std::memcmp(field.data, expected.bytes().data(), expected.bytes().size()), 0) << spec.name;
}

inline void expect_equal(const evenkeel_sample& sample, const SampleShape& expected) {
  EXPECT_EQ(SampleId{sample.id}, expected.id);
  EXPECT_EQ(sample.group, expected.group);
  EXPECT_EQ(sample.prompt, expected.prompt);
  EXPECT_EQ(sample.response, expected.response);
}

inline void expect_equal(const evenkeel_samples* samples, const RaggedBatch& expected) {
  ASSERT_EQ(evenkeel_samples_count(samples), expected.size());
  std::vector<evenkeel_sample> found(expected.samples().size());
  ASSERT_EQ(evenkeel_samples_get(samples, found.data()), EVENKEEL_OK);
  for (std::size_t i = 0; i < found.size(); ++i) expect_equal(found[i], expected.samples()[i]);
  ASSERT_EQ(evenkeel_samples_num_fields(samples), std::ssize(expected.fields()));
  for (const Column& column : expected.fields()) {
    evenkeel_field field{};
    ASSERT_EQ(evenkeel_samples_find_field(samples, column.spec().name.c_str(), &field), EVENKEEL_OK);
    expect_equal(field, column);
  }
}

/// Collective: fails unless the call returned this status on every rank, with the same text.
inline void expect_everywhere(evenkeel_status status, evenkeel_status expected) {
  EXPECT_EQ(std::string(evenkeel_status_name(status)), evenkeel_status_name(expected))
      << evenkeel_last_error_message();
  if (expected == EVENKEEL_OK) return;
  std::array<char, 512> text{};
  std::strncpy(text.data(), evenkeel_last_error_message(), text.size() - 1);
  const std::string mine(text.data());
  MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  EXPECT_EQ(mine, text.data());
}

inline bool last_error_has(const std::string& text) {
  return std::string(evenkeel_last_error_message()).find(text) != std::string::npos;
}

}  // namespace evenkeel::test
