#pragma once

#include <filesystem>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/service/data_service.hpp"

namespace evenkeel {

/// The folder of one rank's micro-batches: DIR/step-000000/dp-000/cp-000/tp-000/pp-000.
[[nodiscard]] std::filesystem::path dump_folder(const std::filesystem::path& dir, std::int64_t step,
                                                const GridPoint& place);

/// Writes what one rank was handed, one mb-00000.safetensors a micro-batch: its token fields, cu_seqlens,
/// cu_seqlens_padded (int32) and sample_index (int64; -1 for filler), fields of one row a sample, and the
/// metadata num_tokens, loss_weight, layout and max_seqlen. With shared prefixes the lengths are of segments,
/// and segment_sample, segment_group, segment_parent and prediction_offsets (int64) tell whose they are.
/// Local. Throws IoError that names the path.
void dump_step(const std::filesystem::path& dir, const Step& step, const GridPoint& place);

}  // namespace evenkeel
