#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "io/megatron/indexed_dataset.hpp"

namespace evenkeel {

/// The SFT datasets of MindSpeed-RL and MindSpeed-LLM, which are three indexed datasets with a document for
/// each sample: PREFIX_packed_input_ids_document, PREFIX_packed_attention_mask_document and
/// PREFIX_packed_labels_document. Labels are at their own tokens, -100 where a token carries no loss: the
/// prompt ends before the first token with loss, and has one token at least. The others become `loss_mask`,
/// one value a response token. Each sample is a group of its own; its id is its number.
class SftSource : public SampleSource {
 public:
  /// The PREFIX if the path names such a dataset: by its prefix, or by one of the three. Collective over
  /// `comm`: rank 0 looks, for all.
  [[nodiscard]] static std::optional<std::filesystem::path> prefix_of(const Communicator& comm,
                                                                      const std::filesystem::path& path);
  /// Collective over `comm`. Throws the same error on every rank: as IndexedDataset does, or when the three
  /// have different documents or ranks have other bytes open.
  [[nodiscard]] static std::unique_ptr<SftSource> open(const Communicator& comm,
                                                       const std::filesystem::path& prefix);

  [[nodiscard]] std::int64_t num_samples() const override { return tokens().num_documents(); }
  [[nodiscard]] std::int64_t tokens_in(std::int64_t position) const override {
    return tokens().tokens_in(tokens().document(position));
  }
  [[nodiscard]] std::int64_t file_bytes() const override;
  [[nodiscard]] SourceFingerprint fingerprint(const Communicator& comm) const override;
  /// Throws InputError for a mask other than 1, and for a label that is neither its token nor -100.
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;
  void expect(std::span<const std::int64_t> positions) const override;

 private:
  explicit SftSource(const std::filesystem::path& prefix);
  [[nodiscard]] const IndexedDataset& tokens() const noexcept { return parts_[0]; }
  void require_equal_documents() const;

  std::string name_;
  std::array<IndexedDataset, 3> parts_;  // tokens, attention mask, labels
};

}  // namespace evenkeel
