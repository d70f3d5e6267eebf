#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "io/safetensors/tensor_file.hpp"
#include "source/dump/dump_folder.hpp"

namespace evenkeel {

/// A sample in a micro-batch of a dump.
struct DumpedSample {
  std::int64_t micro_batch = 0;  ///< number of the micro-batch in the dump
  std::int64_t place = 0;        ///< index among the sequences of the micro-batch, including fillers
  std::int64_t index = 0;        ///< sample_index: the sample's position in the job's source
  std::int64_t begin = 0;        ///< sample's first row in the micro-batch, over all ranks of the group
  std::int64_t padded = 0;       ///< sample's number of rows, including alignment padding
  std::int64_t tokens = 0;
  std::int64_t prompt = 0;
  std::uint64_t group = 0;
  bool has_group = false;  ///< whether `group` is the sample's group; if not, the sample forms its own group
};

/// One open micro-batch of a dump: one file per rank of its group and per required pipeline stage. Local.
class DumpedMicroBatch {
 public:
  /// Throws InputError naming the file if a file contradicts its schema or has shared prefixes.
  DumpedMicroBatch(const std::filesystem::path& folder, std::span<const DumpedPart> parts,
                   std::int64_t number);

  /// Returns the schema in the first rank's file of the last pipeline stage.
  [[nodiscard]] const DumpSchema& schema() const noexcept { return schema_; }
  /// Returns the samples, without fillers.
  [[nodiscard]] std::vector<DumpedSample> samples() const;
  /// Returns the number of a sample's rows in a field with its own row counts. `field` is an index in
  /// schema().fields.
  [[nodiscard]] std::int64_t num_counted_rows(std::size_t field, const DumpedSample& sample) const;
  /// Reads a sample's rows of a field, merged from all ranks and stages. If the sample has no prompt, a field
  /// with one row per response token gets 0 for the first token, since a dump does not store this value.
  /// Precondition: `out` has the total size of these rows.
  void read(std::size_t field, const DumpedSample& sample, std::span<std::byte> out) const;
  /// Reads a sample's tokens.
  void read_tokens(const DumpedSample& sample, std::span<std::byte> out) const;

  /// Returns all open files.
  [[nodiscard]] std::vector<const TensorFile*> files() const;
  [[nodiscard]] const std::string& path() const noexcept { return last_stage_file(0).path(); }

 private:
  /// Location of a field: the stages that have it, each with its layers. If rows are not split by layers,
  /// there is only one stage.
  struct Source {
    struct Stage {
      std::size_t stage = 0;
      std::vector<std::int64_t> layers{};
      std::size_t row_bytes = 0;
    };
    std::vector<Stage> stages{};
    std::vector<SampleRows> rows{};  // rows of each sample, per rank; for fields with their own row counts
    // Index of the field whose token ranges determine the rows of each rank; -1 if every rank has all rows.
    std::ptrdiff_t ranges = -1;
  };
  /// A sample's row in a field that is divided over ranks by token ranges, and one rank that has the row.
  struct CutRow {
    std::int64_t begin = 0;  // start of the row's token range
    std::int64_t end = 0;
    std::int64_t copy = 0;  // index of the row among the sample's rows with the same token range
    std::size_t rank = 0;
    std::int64_t row = 0;  // index of the row among the sample's rows that the rank has

    friend auto operator<=>(const CutRow&, const CutRow&) = default;
  };

  void open_stage(const std::filesystem::path& folder, std::span<const DumpedPart> parts, std::size_t stage);
  [[nodiscard]] bool needs_all_stages() const;
  void read_sequences();
  void find_fields();
  [[nodiscard]] Source find_field(const DumpedField& field) const;
  void require_all_layers(const DumpedField& field, const Source& source) const;
  void require_tensor(const FieldSpec& spec, std::size_t stage) const;
  void link_range_field(std::size_t field);
  [[nodiscard]] std::vector<SampleRows> rows_of_ranks(const FieldSpec& spec, std::size_t stage) const;
  [[nodiscard]] std::vector<CutRow> collect_cut_rows(std::size_t ranges, std::int64_t place) const;
  void read_stage(const FieldSpec& spec, const Source& source, const Source::Stage& stage,
                  const DumpedSample& sample, std::span<std::byte> out) const;
  void read_token_rows(std::string_view field, const Source::Stage& stage, const DumpedSample& sample,
                       std::span<std::byte> out) const;
  void read_cut_rows(std::string_view field, const Source& source, const DumpedSample& sample,
                     std::span<std::byte> out) const;
  [[nodiscard]] const TensorFile& file(std::size_t rank, std::size_t stage) const {
    return *ranks_[rank][stage];
  }
  [[nodiscard]] const TensorFile& last_stage_file(std::size_t rank) const noexcept {
    return *ranks_[rank].back();
  }
  [[nodiscard]] std::vector<std::int64_t> read_integers(const TensorFile& file, std::string_view name) const;
  [[noreturn]] static void fail(const TensorFile& file, const std::string& message,
                                const std::string& hint = {});

  std::int64_t number_;
  DumpSchema schema_;
  // Open files, by rank of the group and by stage. The last stage is always open; stages that are not needed
  // are null.
  std::vector<std::vector<std::unique_ptr<const TensorFile>>> ranks_;
  std::vector<std::vector<DumpedField>> fields_;  // per stage: the fields in its files
  std::vector<std::int64_t> token_offsets_;       // content of the tensor cu_seqlens
  std::vector<std::int64_t> padded_offsets_;      // content of the tensor cu_seqlens_padded
  std::vector<std::int64_t> indices_;             // content of the tensor sample_index
  std::int64_t rows_ = 0;                         // number of token rows per rank of the group
  bool is_padded_ = false;  // whether samples are padded: token fields have the shape [sequences, rows, ...]
  Source tokens_;
  std::vector<Source> sources_;  // location of each field in schema().fields
};

}  // namespace evenkeel
