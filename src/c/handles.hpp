#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/c/evenkeel.h"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"
#include "evenkeel/source/sample_stream.hpp"

// What the opaque types of evenkeel.h are.

struct evenkeel_config {
  evenkeel::Config config;
};

struct evenkeel_samples {
  mutable evenkeel::RaggedBatch batch;  // lending its memory to a step changes nothing that callers see
  std::optional<evenkeel::ErrorReport> wrong;  // the first field that could not be added
};

struct evenkeel_step {
  evenkeel::Step step;
  /// By micro-batch, as C sees them; made when they are first asked for.
  mutable std::vector<std::vector<evenkeel_sample>> samples;
};

struct evenkeel_route {
  std::variant<evenkeel::RowRoute<std::int32_t>, evenkeel::RowRoute<std::int64_t>> route;
  std::vector<std::int32_t> send_counts;  // as MPI takes them
  std::vector<std::int32_t> receive_counts;
};

struct evenkeel_results {
  evenkeel::StepResults results;
  std::optional<evenkeel::ErrorReport> wrong;  // with the first that could not be put; collecting tells it
};

struct evenkeel_service {
  evenkeel::Communicator ranks;  // the caller's
  evenkeel::Config config;
  std::shared_ptr<evenkeel::DataService> service;  // its streams', too

  [[nodiscard]] const evenkeel::Communicator& trainers() const noexcept { return service->mesh().world(); }
};

struct evenkeel_stream {
  std::shared_ptr<evenkeel::DataService> service;  // makes later passes over the steps
  evenkeel::Communicator trainers;
  std::optional<evenkeel::SampleStream> samples;
  std::optional<evenkeel::Steps> steps;  // last, since its thread uses the members above
};

namespace evenkeel::c {

/// The same samples over the same memory, which step and caller then share.
[[nodiscard]] RaggedBatch lent(const evenkeel_samples& samples);

/// The text in memory of its own with a zero behind it, for evenkeel_buffer_free.
void hand_out(const std::string& text, char** buffer, std::int64_t* bytes);

/// Texts of an array of C, each of which must be there.
[[nodiscard]] std::vector<std::string> texts_of(const char* const* texts, std::int64_t count,
                                                const char* name);

/// Throws WrongArgument for NULL and for a micro-batch that the step has not.
[[nodiscard]] std::size_t micro_batch_index(const evenkeel_step* step, std::int64_t micro_batch);

/// NULL is the empty text.
[[nodiscard]] inline const char* text_or_empty(const char* text) noexcept {
  return text == nullptr ? "" : text;
}

}  // namespace evenkeel::c
