#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/exchange/results.hpp"

namespace evenkeel {

/// The results that a trainer computed for a step, micro-batch by micro-batch, to be returned by
/// DataService::collect. Owns copies.
class StepResults {
 public:
  explicit StepResults(std::size_t num_micro_batches) : micro_batches_(num_micro_batches) {}

  /// Adds a result of micro-batch m: one row of `spec.trailing` elements per local packed row (kinds token
  /// and response_token) or per sequence (kind sample). Local, and never throws: errors (a wrong number of
  /// bytes or rows, a repeated name, a micro-batch that does not exist) are reported when the results are
  /// collected, on all ranks together.
  void put(std::size_t m, FieldSpec spec, std::span<const std::byte> values);

  /// Adds a result of a counted kind: `counts` contains each sample's number of rows, in the order of the
  /// micro-batch's samples, including filler, whose rows are dropped.
  void put(std::size_t m, FieldSpec spec, std::span<const std::int64_t> counts,
           std::span<const std::byte> values);

  /// Adds a result like the first put(), with typed values and without trailing dimensions.
  template <typename T>
  void put(std::size_t m, std::string name, FieldKind kind, std::span<const T> values) {
    put(m, FieldSpec{std::move(name), dtype_of<T>, kind, {}}, std::as_bytes(values));
  }

  /// Makes collecting throw this error, on all ranks together, even if results of this rank are not used.
  /// Local, and never throws. The first error is kept.
  void fail(const ErrorReport& report) noexcept;

  [[nodiscard]] std::span<const MicroBatchResults> micro_batches() const noexcept { return micro_batches_; }
  /// Returns the error of the first result that could not be put.
  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept { return error_; }
  /// Returns the error of fail().
  [[nodiscard]] const std::optional<ErrorReport>& failure() const noexcept { return failure_; }

 private:
  std::vector<Column>& fields_for(std::size_t m, const FieldSpec& spec);

  std::optional<ErrorReport> error_;
  std::optional<ErrorReport> failure_;
  std::vector<MicroBatchResults> micro_batches_;
};

}  // namespace evenkeel
