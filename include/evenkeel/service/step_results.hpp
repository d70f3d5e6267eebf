#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/exchange/result_exchange.hpp"

namespace evenkeel {

/// What a trainer computed for a step, micro-batch by micro-batch, until DataService::collect takes it home.
/// Owns copies.
class StepResults {
 public:
  explicit StepResults(std::size_t num_micro_batches) : micro_batches_(num_micro_batches) {}

  /// Adds a result of micro-batch m: one row of `row_shape` elements a local packed row (kinds token and
  /// response_token) or a sequence (kind sample). Local, and never throws for what is in `values`: a wrong
  /// number of rows is found when the results are collected, on all ranks together. Precondition: m < the
  /// number of micro-batches.
  void put(std::size_t m, FieldSpec spec, std::span<const std::byte> values);

  /// The same from typed values, without trailing dimensions.
  template <typename T>
  void put(std::size_t m, std::string name, FieldKind kind, std::span<const T> values) {
    put(m, FieldSpec{std::move(name), dtype_of<T>, kind, {}}, std::as_bytes(values));
  }

  [[nodiscard]] std::span<const MicroBatchResults> micro_batches() const noexcept { return micro_batches_; }

 private:
  std::vector<MicroBatchResults> micro_batches_;
};

}  // namespace evenkeel
