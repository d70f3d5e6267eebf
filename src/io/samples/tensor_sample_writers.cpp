#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <variant>

#include "evenkeel/base/error.hpp"
#include "io/safetensors/safetensors.hpp"
#include "io/samples/sample_spool.hpp"
#include "io/samples/sample_tensors.hpp"
#include "io/samples/sample_writer.hpp"

namespace evenkeel {
namespace {

namespace names = tensor_names;
constexpr std::size_t copied_at_once = std::size_t{1} << 20;

/// Collects uids in a form that tensors can store: all int64, all strings, or all missing.
class KeptUids {
 public:
  explicit KeptUids(const std::filesystem::path& path) : path_(path) {}

  /// Adds uids. If tensors cannot store one of them, drops the uids of all samples if `any_room` is true;
  /// otherwise, throws InputError.
  void add(std::span<const SampleShape> samples, std::span<const Uid> uids, bool any_room) {
    for (std::size_t i = 0; i < uids.size() && !are_lost_; ++i) {
      const std::string why = rejection_reason(uids[i]);
      if (why.empty()) {
        keep(uids[i]);
        continue;
      }
      if (!any_room) {
        throw InputError(
            path_.string(),
            "cannot hold the uid of sample " + std::to_string(samples[i].id.value()) + ": " + why,
            "Write JSON Lines, give all samples uids of one kind, or leave them out: --drop uid");
      }
      are_lost_ = true;
    }
  }

  [[nodiscard]] bool are_integers() const { return !are_lost_ && kind_ == Uid(std::int64_t{}).index(); }
  [[nodiscard]] bool are_texts() const { return !are_lost_ && kind_ == Uid(std::string()).index(); }
  /// Returns the uid of each sample. Precondition: are_integers().
  [[nodiscard]] const std::vector<std::int64_t>& integers() const { return numbers_; }
  /// Returns the number of bytes of each sample's uid. Precondition: are_texts().
  [[nodiscard]] const std::vector<std::int64_t>& lengths() const { return numbers_; }
  /// Returns the uids of all samples, concatenated. Precondition: are_texts().
  [[nodiscard]] SpooledBytes& texts() { return *texts_; }

 private:
  static std::string uid_kind_text(std::size_t kind) {
    constexpr std::array words{"missing", "an integer", "an integer", "a string"};
    return words[kind];
  }

  [[nodiscard]] std::string rejection_reason(const Uid& uid) const {
    if (std::holds_alternative<std::uint64_t>(uid))
      return std::to_string(std::get<std::uint64_t>(uid)) + " is not an int64";
    if (!kind_ || *kind_ == uid.index()) return {};
    return "it is " + uid_kind_text(uid.index()) + ", but that of the first sample is " +
           uid_kind_text(*kind_);
  }

  void keep(const Uid& uid) {
    kind_ = uid.index();
    if (const auto* number = std::get_if<std::int64_t>(&uid)) numbers_.push_back(*number);
    const auto* const text = std::get_if<std::string>(&uid);
    if (text == nullptr) return;
    if (!texts_) texts_.emplace(path_);
    texts_->write(std::as_bytes(std::span(*text)));
    numbers_.push_back(std::ssize(*text));
  }

  std::filesystem::path path_;
  std::optional<std::size_t> kind_;  // Uid::index() of all uids so far; nullopt before the first uid
  bool are_lost_ = false;
  std::vector<std::int64_t> numbers_;
  std::optional<SpooledBytes> texts_;
};

/// Keeps all samples until close(), which writes the concatenated values of each field, and the offsets at
/// which samples begin.
class RaggedWriter : public SampleWriter {
 public:
  RaggedWriter(const std::filesystem::path& path, DroppedFields dropped)
      : path_(path), dropped_(std::move(dropped)), spool_(path), uids_(path) {}

  using SampleWriter::write;
  void write(const RaggedBatch& batch, std::span<const Uid> uids) override {
    RaggedBatch kept({batch.samples().begin(), batch.samples().end()});
    for (const Column& column : batch.fields()) {
      if (is_kept(column.spec())) kept.add_field(column);
    }
    spool_.add(kept);
    if (keeps("uid")) uids_.add(batch.samples(), uids, dropped_.contains("all"));
  }

  void close() override {
    std::vector<TensorStream> tensors;
    std::vector<std::int64_t> offsets{0};
    for (const SampleShape& sample : spool_.samples()) offsets.push_back(offsets.back() + sample.length());
    tensors.push_back(list_stream(names::offsets, std::move(offsets)));
    if (keeps("prompt_lengths"))
      tensors.push_back(
          stream_per_sample(names::prompt_lengths, [](const SampleShape& s) { return s.prompt; }));
    add_uids(tensors);
    for (std::size_t f = 0; f < spool_.fields().size(); ++f) {
      tensors.push_back(rows_stream(f));
      if (is_counted(spool_.fields()[f].kind)) tensors.push_back(offsets_stream(f));
    }
    std::map<std::string, std::string> metadata;
    if (!kinds_text().empty()) metadata[std::string(names::field_kinds)] = kinds_text();
    stream_safetensors(path_, tensors, metadata);
  }

 private:
  template <typename T>
  static TensorStream list_stream(std::string_view name, std::vector<T> values) {
    const std::vector<std::int64_t> shape{std::ssize(values)};
    return {std::string(name), dtype_of<T>, shape,
            [kept = std::move(values)](const TensorSink& sink) { sink(std::as_bytes(std::span(kept))); }};
  }

  /// Returns a tensor with one number per sample.
  template <typename Number>
  [[nodiscard]] TensorStream stream_per_sample(std::string_view name, const Number& number) const {
    std::vector<std::int64_t> values;
    values.reserve(spool_.samples().size());
    for (const SampleShape& sample : spool_.samples()) values.push_back(number(sample));
    return list_stream(name, std::move(values));
  }

  /// Returns a stream that reads the spooled bytes.
  static TensorStream stream_of(SpooledBytes& bytes, std::string name, DType dtype,
                                std::vector<std::int64_t> shape) {
    return {std::move(name), dtype, std::move(shape), [&bytes](const TensorSink& sink) {
              std::vector<std::byte> block;
              for (std::int64_t at = 0; at < bytes.size(); at += std::ssize(block)) {
                block.resize(std::min(copied_at_once, static_cast<std::size_t>(bytes.size() - at)));
                bytes.read(block, at);
                sink(block);
              }
            }};
  }

  /// Returns all rows of a field, concatenated.
  TensorStream rows_stream(std::size_t field) {
    const FieldSpec& spec = spool_.fields()[field];
    std::vector<std::int64_t> shape{total_rows(field)};
    shape.insert(shape.end(), spec.trailing.begin(), spec.trailing.end());
    return stream_of(spool_.rows(field), spec.name, spec.dtype, std::move(shape));
  }

  /// Adds the tensors of the uids, unless the uids are missing or dropped.
  void add_uids(std::vector<TensorStream>& tensors) {
    if (uids_.are_integers()) tensors.push_back(list_stream(names::uid, uids_.integers()));
    if (!uids_.are_texts()) return;
    SpooledBytes& texts = uids_.texts();
    tensors.push_back(stream_of(texts, std::string(names::uid), DType::uint8, {texts.size()}));
    const SampleRows samples = SampleRows::from_counts(uids_.lengths());
    tensors.push_back(
        list_stream(names::uid_offsets, std::vector(samples.offsets().begin(), samples.offsets().end())));
  }

  /// Returns the tensor that divides a counted field's rows among samples.
  TensorStream offsets_stream(std::size_t field) const {
    const SampleRows samples = SampleRows::from_counts(spool_.counts(field));
    return list_stream(offsets_name(spool_.fields()[field].name),
                       std::vector(samples.offsets().begin(), samples.offsets().end()));
  }

  [[nodiscard]] std::string kinds_text() const {
    FieldKinds kinds;
    for (const FieldSpec& spec : spool_.fields()) {
      if (spec.name != input_ids_field) kinds.emplace(spec.name, spec.kind);
    }
    return kinds.empty() ? std::string() : text_of(kinds);
  }

  [[nodiscard]] bool keeps(const char* name) const { return !dropped_.contains(name); }

  [[nodiscard]] bool is_kept(const FieldSpec& spec) const {
    if (dropped_.contains(spec.name)) return false;
    const auto is_own = [](const std::string& name) {
      return std::ranges::count(names::reserved, std::string_view(name)) > 0;
    };
    const bool has_own_name = is_own(spec.name) || (is_counted(spec.kind) && is_own(offsets_name(spec.name)));
    if (!has_own_name) return true;
    if (dropped_.contains("all")) return false;
    throw InputError(path_.string(),
                     "cannot hold field '" + spec.name + "': the name '" +
                         (is_own(spec.name) ? spec.name : offsets_name(spec.name)) + "' is reserved there",
                     "Write it in another format, or leave it out: --drop " + spec.name);
  }

  [[nodiscard]] std::int64_t total_rows(std::size_t field) const {
    const FieldRule& rule = spool_.fields()[field].rule();
    std::int64_t rows = 0;
    for (const std::int64_t count : spool_.counts(field)) rows += count;
    if (rule.is_counted()) return rows;
    for (const SampleShape& sample : spool_.samples()) rows += rule.rows_of(sample.prompt, sample.response);
    return rows;
  }

  std::filesystem::path path_;
  DroppedFields dropped_;
  SampleSpool spool_;
  KeptUids uids_;
};

}  // namespace

std::unique_ptr<SampleWriter> make_ragged_writer(const std::filesystem::path& path,
                                                 const DroppedFields& dropped) {
  return std::make_unique<RaggedWriter>(path, dropped);
}

}  // namespace evenkeel
