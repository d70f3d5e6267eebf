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
#include "io/samples/tensor_file.hpp"
#include "source/dump/dump_folder.hpp"

namespace evenkeel {

/// A sample of a micro-batch of a dump.
struct DumpedSample {
  std::int64_t micro_batch = 0;  ///< counts those of the dump
  std::int64_t place = 0;        ///< in the micro-batch
  std::int64_t index = 0;        ///< sample_index
  std::int64_t begin = 0;        ///< in rows over the whole group
  std::int64_t padded = 0;       ///< rows, with those for alignment
  std::int64_t tokens = 0;
  std::int64_t prompt = 0;
  std::uint64_t group = 0;
  bool has_group = false;  ///< else it is a group of its own
};

/// One micro-batch of a dump, open: the files of its ranks, one of each pipeline stage that is needed. Local.
class DumpedMicroBatch {
 public:
  /// Throws InputError that names the file where it is not what its schema says, or is of shared prefixes.
  DumpedMicroBatch(const std::filesystem::path& folder, std::span<const DumpedPart> parts,
                   std::int64_t number);

  /// The first file's.
  [[nodiscard]] const DumpSchema& schema() const noexcept { return schema_; }
  /// Fillers are left out.
  [[nodiscard]] std::vector<DumpedSample> samples() const;
  /// The rows of a counted field that a sample has, by the field's place in schema().fields.
  [[nodiscard]] std::int64_t counted_rows(std::size_t field, const DumpedSample& sample) const;
  /// A sample's rows of a field, put together from those of all ranks and stages. `out` has room for them.
  void read(std::size_t field, const DumpedSample& sample, std::span<std::byte> out) const;
  /// A sample's tokens.
  void read_tokens(const DumpedSample& sample, std::span<std::byte> out) const;

  /// All that are open.
  [[nodiscard]] std::vector<const TensorFile*> files() const;
  [[nodiscard]] const std::string& path() const noexcept { return last(0).path(); }

 private:
  /// Where a field is: the stages that have it, each with its layers; one alone where rows are whole.
  struct Source {
    struct Stage {
      std::size_t stage = 0;
      std::vector<std::int64_t> layers{};
      std::size_t row_bytes = 0;
    };
    std::vector<Stage> stages{};
    std::vector<SampleRows> rows{};  // of each rank, of a counted field
    std::ptrdiff_t ranges = -1;      // the field that cuts it, where it is cut over ranks
  };
  /// One of a sample's rows that are cut over ranks, and a rank that has it.
  struct CutRow {
    std::int64_t begin = 0;  // in tokens
    std::int64_t end = 0;
    std::int64_t copy = 0;  // counts rows of the same tokens
    std::size_t rank = 0;
    std::int64_t row = 0;  // among those of the sample on the rank

    friend auto operator<=>(const CutRow&, const CutRow&) = default;
  };

  void open_stage(const std::filesystem::path& folder, std::span<const DumpedPart> parts, std::size_t stage);
  [[nodiscard]] bool needs_all_stages() const;
  void learn_sequences();
  void find_fields();
  [[nodiscard]] Source find_field(const DumpedField& field) const;
  void require_all_layers(const DumpedField& field, const Source& source) const;
  void require_tensor(const FieldSpec& spec, std::size_t stage) const;
  void find_ranges(std::size_t field);
  [[nodiscard]] std::vector<SampleRows> rows_of_ranks(const FieldSpec& spec, std::size_t stage) const;
  [[nodiscard]] std::vector<CutRow> cut_rows(std::size_t ranges, std::int64_t place) const;
  void read_stage(const FieldSpec& spec, const Source& source, const Source::Stage& stage,
                  const DumpedSample& sample, std::span<std::byte> out) const;
  void read_token_rows(std::string_view field, const Source::Stage& stage, const DumpedSample& sample,
                       std::span<std::byte> out) const;
  void read_cut_rows(std::string_view field, const Source& source, const DumpedSample& sample,
                     std::span<std::byte> out) const;
  [[nodiscard]] const TensorFile& file(std::size_t rank, std::size_t stage) const {
    return *ranks_[rank][stage];
  }
  [[nodiscard]] const TensorFile& last(std::size_t rank) const noexcept { return *ranks_[rank].back(); }
  [[nodiscard]] std::vector<std::int64_t> integers(const TensorFile& file, std::string_view name) const;
  [[noreturn]] static void fail(const TensorFile& file, const std::string& message,
                                const std::string& hint = {});

  std::int64_t number_;
  DumpSchema schema_;
  // Of each rank of the group its stages, the last of them always; none where it is not needed.
  std::vector<std::vector<std::unique_ptr<const TensorFile>>> ranks_;
  std::vector<std::vector<DumpedField>> fields_;  // as each stage's files say
  std::vector<std::int64_t> lengths_;             // cu_seqlens
  std::vector<std::int64_t> padded_;              // cu_seqlens_padded
  std::vector<std::int64_t> indices_;             // sample_index
  std::int64_t rows_ = 0;                         // of one rank
  bool is_padded_ = false;                        // token fields are [sequences, rows, ...]
  Source tokens_;
  std::vector<Source> sources_;  // of schema().fields
};

}  // namespace evenkeel
