#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/base/row_range.hpp"
#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// A sample, or a piece of one, of one of several batches.
struct Cut {
  std::size_t batch = 0;
  std::int64_t index = 0;  ///< of the sample in its batch
  RowRange tokens;         ///< of the sample
  SampleId id{0};          ///< that it gets
  std::uint64_t group = 0;
};

/// The cuts in their order as one batch. A piece has the rows of its tokens in fields of tokens, those of its
/// response tokens in fields of response tokens, and all of the sample's rows in fields of samples, text and
/// bytes; its prompt is what of the sample's prompt is in it. Throws InputError where a field of rows would
/// be cut. Fields are those of the batches that are cut from, in the order of the first. Throws InputError
/// that names two of `names` and a field unless all have the same fields. O(bytes).
///
/// Example: tokens [2, 5) of a sample of prompt 3 and response 4 have a prompt of 1 and a response of 2,
/// whose rows are the response's 0 and 1.
[[nodiscard]] RaggedBatch cut_samples(std::span<const RaggedBatch> batches, std::span<const Cut> cuts,
                                      std::span<const std::string> names);

}  // namespace evenkeel
