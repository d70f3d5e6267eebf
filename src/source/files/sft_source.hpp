#pragma once

#include <array>
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

/// Samples from an SFT dataset of MindSpeed-RL or MindSpeed-LLM, which consists of three indexed datasets
/// with one document per sample, PREFIX_packed_input_ids_document, PREFIX_packed_attention_mask_document and
/// PREFIX_packed_labels_document. Labels are aligned with their own tokens and are -100 for tokens without
/// loss. The prompt ends before the first token with loss, and has at least one token. If no token carries
/// loss, the whole document is the prompt. The labels after the prompt become the field `loss_mask`, one
/// value per response token. Each sample forms its own group, and its id is the document's number.
class SftSource : public SampleSource {
 public:
  /// Returns PREFIX if the path names such a dataset, by its prefix or by one of the three names; otherwise
  /// nullopt. Collective over `comm`: rank 0 examines the files for all ranks.
  [[nodiscard]] static std::optional<std::filesystem::path> prefix_of(const Communicator& comm,
                                                                      const std::filesystem::path& path);
  /// Collective over `comm`. Throws on every rank: InputError if a dataset is invalid or the three datasets
  /// have different documents, and IoError if a file cannot be read or the files differ between ranks.
  [[nodiscard]] static std::unique_ptr<SftSource> open(const Communicator& comm,
                                                       const std::filesystem::path& prefix);

  [[nodiscard]] std::int64_t num_samples() const override { return tokens().num_documents(); }
  [[nodiscard]] std::int64_t tokens_in(std::int64_t position) const override {
    return tokens().tokens_in(tokens().document(position));
  }
  [[nodiscard]] std::int64_t file_bytes() const override;
  [[nodiscard]] SourceFingerprint fingerprint(const Communicator& comm) const override;
  /// Throws InputError for a negative token, a mask value other than 1, or a label that is neither its token
  /// nor -100.
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> positions) const override;
  void prefetch(std::span<const std::int64_t> positions) const override;

 private:
  explicit SftSource(const std::filesystem::path& prefix);
  [[nodiscard]] const IndexedDataset& tokens() const noexcept { return parts_[0]; }
  void require_equal_documents() const;

  std::string name_;
  std::array<IndexedDataset, 3> parts_;  // datasets of the tokens, the attention mask and the labels
};

}  // namespace evenkeel
