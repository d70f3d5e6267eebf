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

/// A field of a source's samples, and what is still open because no sample shows it: another source may
/// decide it.
struct SourceField {
  FieldSpec spec;
  bool is_kind_open = false;     ///< `token`, and perhaps response_token: all prompts are empty
  bool is_element_open = false;  ///< dtype and trailing dimensions: no sample has a row of it
};

/// A source of samples: a numbered list, of which every rank can read any part.
class SampleSource {
 public:
  SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;
  virtual ~SampleSource() = default;

  /// The total number of samples, equal on every rank.
  [[nodiscard]] virtual std::int64_t num_samples() const = 0;

  /// The number of tokens of the sample at a position (0-based), known since the source was opened; equal on
  /// every rank. Local, O(1).
  [[nodiscard]] virtual std::int64_t tokens_in(std::int64_t position) const = 0;

  /// Bytes of the files that samples are read from; 0 if they are not in files. Local.
  [[nodiscard]] virtual std::int64_t file_bytes() const { return 0; }

  /// Collective over `comm`, which opened the source: equal on every rank. How much of the files is read
  /// depends on the source: all of it if opening reads all, otherwise a part.
  [[nodiscard]] virtual SourceFingerprint fingerprint(const Communicator& comm) const = 0;

  /// The samples at these positions (0-based), in this order. Local: each rank reads only its own share.
  /// Throws InputError or IoError that names the place.
  [[nodiscard]] virtual RaggedBatch read(std::span<const std::int64_t> positions) const = 0;

  /// The fields of samples besides input_ids, known since the source was opened; equal on every rank. Local.
  /// By default: the fields of the first sample, which is read for this; throws as read().
  [[nodiscard]] virtual std::vector<SourceField> fields() const;

  /// These samples' names for their groups; read() returns only the groups. Local. Throws as read(). By
  /// default: nothing, as in a source without groups.
  [[nodiscard]] virtual std::vector<Uid> uids(std::span<const std::int64_t> positions) const {
    return std::vector<Uid>(positions.size());
  }

  /// Announces that this rank, or another rank of its node, will read() these samples soon, usually in the
  /// next call but one, so that they can be prefetched from disk. A hint: local, does not wait, and does not
  /// change what read() returns. Does nothing if samples are not in files.
  virtual void expect(std::span<const std::int64_t> positions) const { static_cast<void>(positions); }

  /// What the source has besides the fields of its samples, and why it is left out, such as "'note' (text)";
  /// empty if everything is read.
  [[nodiscard]] virtual std::string left_out() const { return {}; }

  /// Fields that have one row a token only because nothing shows whether they have one a response token, such
  /// as "'advantages'"; empty if there are none.
  [[nodiscard]] virtual std::string undecided() const { return {}; }
};

inline constexpr std::int64_t any_length = std::numeric_limits<std::int64_t>::max();

/// No longer sample, in tokens, can be planned under any profile of `config`: the largest cap.
[[nodiscard]] std::int64_t longest_sample(const Config& config);

/// Collective over `comm`: opens the source that a configuration names. A JSONL file is scanned in byte
/// ranges, one for each rank, which finds its lines, its fields and any malformed line before the first
/// step. Each rank opens it once and keeps it open; all must have the same bytes: a file that replaces it
/// later is not read, and if it is modified, the next read throws IoError. The same holds for both files of
/// an indexed dataset, whose index every rank reads, and for tensors, of which ranks read offsets or masks.
/// Many files may be one source, and compressed ones are decompressed once for each node (docs/formats.md).
/// Only rank 0 reads a length table. Made-up tokens are not made for a sample of more than `max_tokens`:
/// reading it throws LimitError. `fields` says how lines write the fields that need it
/// (FieldSettings::read_as).
///
/// Throws the same error on every rank: InputError that names the file if it has no samples, or none with a
/// field that `fields` requires, ConfigError if the kind is not set or is `embedded`, or if ranks name
/// different sources.
[[nodiscard]] std::unique_ptr<SampleSource> open_source(const Communicator& comm,
                                                        const SourceSettings& config,
                                                        std::int64_t max_tokens = any_length,
                                                        const NamedFields& fields = {});

}  // namespace evenkeel
