#pragma once

#include <cstdint>
#include <filesystem>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/service/data_service.hpp"

namespace evenkeel {

/// The kind of plan to which the dumped micro-batches belong. It determines the folders (dump_folder()) and
/// the metadata.
enum class DumpForm : std::uint8_t {
  grid,  ///< all CP groups have the same size
  /// `mesh.cp: flexible`, and ranks synchronize once per step. The metadata identifies the CP group.
  context_tree,
  /// `mesh.cp: flexible`, and ranks synchronize at every micro-batch. The metadata also identifies the wave.
  context_waves,
};
[[nodiscard]] DumpForm dump_form_of(const PlanSettings& settings) noexcept;

/// A rank that writes its part of a dump.
struct DumpWriter {
  GridPoint mesh;   ///< size of the mesh along each axis
  GridPoint place;  ///< the rank's coordinates in `mesh`
  DumpForm form = DumpForm::grid;
  /// Number of ranks that write to the same folder. If nodes have their own disks, this is not the number of
  /// all ranks.
  std::int64_t writers = 1;
};

/// Returns the folder of one rank's micro-batches: DIR/step-000000/dp-000/cp-000/tp-000/pp-000, or
/// DIR/step-000000/data-000/tp-000/pp-000 if groups have different sizes.
[[nodiscard]] std::filesystem::path dump_folder(const std::filesystem::path& dir, std::int64_t step,
                                                const GridPoint& place, DumpForm form = DumpForm::grid);

/// Writes the micro-batches of one rank, one mb-00000.safetensors per micro-batch, with
/// - the token fields, cu_seqlens, cu_seqlens_padded (int32) and sample_index (int64; -1 for filler);
/// - fields with one row per sample, and fields with any number of rows per sample, with their offsets;
/// - the metadata num_tokens, loss_weight, layout and max_seqlen;
/// - the metadata evenkeel_dump: the DumpSchema, which contains the kind of each field and is needed to read
///   a dump back.
/// With shared prefixes, cu_seqlens are the offsets of segments instead of samples, and segment_sample,
/// segment_group, segment_parent and prediction_offsets (int64) identify the samples. If groups have
/// different sizes, the metadata context_first, context_size and context_rank are the group's first place,
/// its size and this rank's number in the group; the metadata wave is -1 in a tree. Local. Throws IoError
/// naming the path.
void dump_step(const std::filesystem::path& dir, const Step& step, const DumpWriter& writer);

}  // namespace evenkeel
