#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/service_state.hpp"

namespace evenkeel {

/// A field of a source's samples. A property is open if no sample of this source determines it; another
/// source may determine it.
struct SourceField {
  FieldSpec spec;
  bool is_kind_open = false;     ///< `token`, but may be response_token, since all prompts are empty
  bool is_element_open = false;  ///< dtype and trailing dimensions are open, since no sample has a row of it
};

/// A source of samples: a numbered list, any part of which can be read by every rank.
class SampleSource {
 public:
  SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;
  virtual ~SampleSource() = default;

  /// Returns the total number of samples, equal on every rank.
  [[nodiscard]] virtual std::int64_t num_samples() const = 0;

  /// Returns the number of tokens of the sample at a position (0-based), known since the source was opened;
  /// equal on every rank. Local, O(1).
  [[nodiscard]] virtual std::int64_t tokens_in(std::int64_t position) const = 0;

  /// Returns the size of the files from which samples are read, in bytes; 0 if they are not in files. Local.
  [[nodiscard]] virtual std::int64_t file_bytes() const { return 0; }

  /// Returns the fingerprint, equal on every rank. Collective over `comm`, which opened the source. How much
  /// of the files is read depends on the source: everything if opening it reads everything, otherwise a part.
  [[nodiscard]] virtual SourceFingerprint fingerprint(const Communicator& comm) const = 0;

  /// Returns the samples at these positions (0-based), in this order. Local: each rank reads only its own
  /// share. Throws InputError or IoError naming the place.
  [[nodiscard]] virtual RaggedBatch read(std::span<const std::int64_t> positions) const = 0;

  /// Returns the fields of samples other than input_ids, known since the source was opened; equal on every
  /// rank. Local. By default, reads the first sample and returns its fields; throws InputError or IoError
  /// like read().
  [[nodiscard]] virtual std::vector<SourceField> fields() const;

  /// Returns these samples' uids; read() returns only the groups. Local. Throws InputError or IoError like
  /// read(). By default, samples do not have uids, as in a source without groups.
  [[nodiscard]] virtual std::vector<Uid> uids(std::span<const std::int64_t> positions) const {
    return std::vector<Uid>(positions.size());
  }

  /// Announces that this rank, or another rank of its node, will read() these samples soon, usually in the
  /// call after the next one, so that they can be prefetched from disk. This is a hint: it is local, does not
  /// wait, and does not affect the result of read(). Does nothing if samples are not in files.
  virtual void prefetch(std::span<const std::int64_t> positions) const { static_cast<void>(positions); }

  /// Returns the contents of the source that are not fields of its samples, and why they are ignored, such as
  /// "'note' (text)"; empty if everything is read.
  [[nodiscard]] virtual std::string ignored_content() const { return {}; }

  /// Returns the fields whose kind is undecided, such as "'advantages'": they may have one row per token or
  /// per response token and are treated as the former. Empty if there are none.
  [[nodiscard]] virtual std::string undecided_fields() const { return {}; }
};

inline constexpr std::int64_t any_length = std::numeric_limits<std::int64_t>::max();

/// Returns the maximum length of a sample, in tokens, that can be planned under at least one profile of
/// `config`: the largest cap, or 2^31 - 1 with mesh.cp: flexible, since caps then depend on the mesh.
[[nodiscard]] std::int64_t longest_sample(const Config& config);

/// Collective over `comm`: opens the source named by a configuration. A JSONL file is scanned in byte ranges,
/// one per rank, which finds its lines, its fields and any malformed line before the first step. Each rank
/// opens the file once and keeps it open. All ranks must have the same bytes: a file that replaces it later
/// is not read, and if it is modified, the next read throws IoError. The same applies to both files of an
/// indexed dataset, whose index every rank reads, and to tensors, of which ranks read offsets or masks. Many
/// files may form one source, and compressed files are decompressed once per node (docs/formats.md). Only
/// rank 0 reads a length table. Synthetic tokens are not made for a sample of more than `max_tokens`: reading
/// it throws LimitError. `fields` specifies how lines represent the fields that need it
/// (FieldSettings::read_as).
///
/// Throws the same error on every rank: InputError naming the file if it does not have samples, or if no
/// sample has a field that `fields` requires; IoError if a file cannot be read or differs between ranks; and
/// ConfigError if the kind is not set or is `stream` or `embedded`, if it needs a path that is not set, or if
/// ranks name different sources.
[[nodiscard]] std::unique_ptr<SampleSource> open_source(const Communicator& comm,
                                                        const SourceSettings& config,
                                                        std::int64_t max_tokens = any_length,
                                                        const NamedFields& fields = {});

}  // namespace evenkeel
