#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "c/config.hpp"
#include "c/texts.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/c/evenkeel_mpi.h"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"
#include "evenkeel/source/sample_stream.hpp"

// Definitions of the opaque types of evenkeel_mpi.h.

struct evenkeel_samples {
  // Mutable, since a step may borrow the batch's memory (make_borrowing_batch()). Callers can observe this
  // only in evenkeel_field::is_shared.
  mutable evenkeel::RaggedBatch batch;
  // First error, from adding a field or from evenkeel_samples_fail(); thrown by make_borrowing_batch().
  std::optional<evenkeel::ErrorReport> first_error;
};

struct evenkeel_step {
  explicit evenkeel_step(evenkeel::Step made) { set_step(std::move(made)); }
  void set_step(evenkeel::Step made);

  evenkeel::Step step;
  std::vector<std::vector<evenkeel_sample>> samples;  // C views of the samples, by micro-batch
};

struct evenkeel_results {
  evenkeel::StepResults results;
  // First error, from adding a result or from evenkeel_results_fail(); thrown when results are collected.
  std::optional<evenkeel::ErrorReport> first_error;
};

struct evenkeel_ranks {
  evenkeel::Communicator ranks;
};

struct evenkeel_memory {
  std::vector<std::shared_ptr<const std::byte>> blocks;
};

struct evenkeel_service {
  evenkeel::Communicator ranks;  // communicator of the caller's ranks
  evenkeel::Config config;
  std::shared_ptr<evenkeel::DataService> service;  // shared with the streams of this service

  [[nodiscard]] const evenkeel::Communicator& trainers() const noexcept { return service->mesh().world(); }
};

struct evenkeel_stream {
  std::shared_ptr<evenkeel::DataService> service;  // makes the steps, and later passes over them
  evenkeel::Communicator trainers;
  std::string profile;  // profile of the first pass
  std::optional<evenkeel::SampleStream> samples;
  std::optional<evenkeel::Steps> steps;  // declared last, since its thread uses the members above
};

namespace evenkeel::c {

/// Returns a batch that shares the memory of `samples`. Throws the stored error if there is one.
[[nodiscard]] RaggedBatch make_borrowing_batch(const evenkeel_samples& samples);

/// Returns the index of a micro-batch. Throws WrongArgument if `step` is NULL or does not have this
/// micro-batch.
[[nodiscard]] std::size_t micro_batch_index(const evenkeel_step* step, std::int64_t micro_batch);

}  // namespace evenkeel::c
