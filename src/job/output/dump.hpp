#pragma once

#include <cstdint>
#include <filesystem>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/service/data_service.hpp"

namespace evenkeel {

/// What tells whose a dumped micro-batch is.
enum class DumpForm : std::uint8_t {
  grid,           ///< its place along dp and cp
  context_tree,   ///< with `mesh.cp: flexible` its group, which the metadata name, and the rank's place
  context_waves,  ///< the same, with the wave that it is in
};
[[nodiscard]] DumpForm dump_form_of(const PlanSettings& settings) noexcept;

/// A rank that writes its part of a dump.
struct DumpWriter {
  GridPoint mesh;   ///< sizes
  GridPoint place;  ///< the rank's
  DumpForm form = DumpForm::grid;
  /// The ranks that write to the same folder; fewer than all where nodes have disks of their own.
  std::int64_t writers = 1;
};

/// The folder of one rank's micro-batches: DIR/step-000000/dp-000/cp-000/tp-000/pp-000, or
/// DIR/step-000000/data-000/tp-000/pp-000 where micro-batches have groups of their own.
[[nodiscard]] std::filesystem::path dump_folder(const std::filesystem::path& dir, std::int64_t step,
                                                const GridPoint& place, DumpForm form = DumpForm::grid);

/// Writes what one rank was handed, one mb-00000.safetensors a micro-batch: its token fields, cu_seqlens,
/// cu_seqlens_padded (int32) and sample_index (int64; -1 for filler), fields of one row a sample, and the
/// metadata num_tokens, loss_weight, layout and max_seqlen. With shared prefixes the lengths are of segments,
/// and segment_sample, segment_group, segment_parent and prediction_offsets (int64) tell whose they are.
/// Where micro-batches have groups of their own, the metadata context_first, context_size and context_rank
/// are the group's first place, its size and this rank's number in it, and wave is -1 in a tree. In every
/// file evenkeel_dump is its DumpSchema, which says what kind of field each tensor is, and by which a dump is
/// read back. Local. Throws IoError that names the path.
void dump_step(const std::filesystem::path& dir, const Step& step, const DumpWriter& writer);

}  // namespace evenkeel
