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

/// A field of the samples of a source, and what of it none of them shows: a stand-in that another source may
/// decide.
struct SourceField {
  FieldSpec spec;
  bool is_kind_open = false;     ///< `token`, and perhaps response_token: all prompts are empty
  bool is_element_open = false;  ///< dtype and trailing dimensions: no sample has a row of it
};

/// Where samples come from: a numbered list of them that every rank can read any part of.
class SampleSource {
 public:
  SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;
  virtual ~SampleSource() = default;

  /// Samples in all, equal on every rank.
  [[nodiscard]] virtual std::int64_t num_samples() const = 0;

  /// The tokens of the sample at a position (0-based), which the source knows since it was opened; equal on
  /// every rank. Local, O(1).
  [[nodiscard]] virtual std::int64_t tokens_in(std::int64_t position) const = 0;

  /// Bytes of the files that samples are read from; 0 where they are not in files. Local.
  [[nodiscard]] virtual std::int64_t file_bytes() const { return 0; }

  /// Collective over `comm`, which opened the source: equal on every rank. Reads files as far as the source
  /// says: whole where opening does, too, else in part.
  [[nodiscard]] virtual SourceFingerprint fingerprint(const Communicator& comm) const = 0;

  /// The samples at these positions (0-based), in this order. Local: each rank reads its own share and
  /// nothing else. Throws InputError or IoError that names the place.
  [[nodiscard]] virtual RaggedBatch read(std::span<const std::int64_t> positions) const = 0;

  /// What samples have beside input_ids, as the source knows it since it was opened; equal on every rank.
  /// Local. Here: what the first sample has, which is read for it; throws as read().
  [[nodiscard]] virtual std::vector<SourceField> fields() const;

  /// What these samples say their groups are called, of which read() gives the groups alone. Local. Throws as
  /// read(). Here: nothing, as in a source that knows of no groups.
  [[nodiscard]] virtual std::vector<Uid> uids(std::span<const std::int64_t> positions) const {
    return std::vector<Uid>(positions.size());
  }

  /// Says that this rank will read() these samples soon, next but one or sooner if it can be told, or that
  /// another rank of its node will, so that they can be on their way from the disk by then. A hint: local,
  /// does not wait, and changes nothing that read() gives. Does nothing where samples are not in files.
  virtual void expect(std::span<const std::int64_t> positions) const { static_cast<void>(positions); }

  /// What the source holds beside the fields of its samples, and why it is left out, such as "'note' (text)";
  /// empty when all is read.
  [[nodiscard]] virtual std::string left_out() const { return {}; }

  /// Fields that have one row a token only because nothing says whether they have one a response token, such
  /// as "'advantages'"; empty when all is clear.
  [[nodiscard]] virtual std::string undecided() const { return {}; }
};

inline constexpr std::int64_t any_length = std::numeric_limits<std::int64_t>::max();

/// No sample longer than this, in tokens, can be planned under any profile of `config`: the largest cap.
[[nodiscard]] std::int64_t longest_sample(const Config& config);

/// Collective over `comm`: opens the source a configuration names. A JSONL file is scanned in byte ranges,
/// one a rank, which finds its lines, its fields and any malformed line before the first step. Each rank
/// opens it once; all must have the same bytes open, and keep them: whatever takes the file's name later is
/// not read, and a file that is written to is an IoError at the next read. The same goes for both files of an
/// indexed dataset, whose index every rank reads, and for tensors, of which ranks read offsets or masks. Many
/// files may be one source, and packed ones are unpacked once a node (docs/formats.md). A length table is
/// read by rank 0 alone. Made-up tokens are not made for a sample of more than `max_tokens`: reading it
/// throws LimitError. `fields` says what lines have under names of which they do not tell it themselves
/// (FieldSettings::read_as).
///
/// Throws the same error on every rank: InputError that names the file when it holds no samples, or none with
/// a field that `fields` says is there, ConfigError when the kind is not set, `embedded`, or ranks give
/// different sources.
[[nodiscard]] std::unique_ptr<SampleSource> open_source(const Communicator& comm,
                                                        const SourceSettings& config,
                                                        std::int64_t max_tokens = any_length,
                                                        const NamedFields& fields = {});

}  // namespace evenkeel
