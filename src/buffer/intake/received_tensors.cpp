#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "buffer/intake/received_samples.hpp"
#include "evenkeel/base/error.hpp"
#include "io/safetensors/safetensors.hpp"
#include "io/safetensors/tensor_file.hpp"
#include "io/samples/sample_tensors.hpp"

// Reads requests in the safetensors format. Each sample is stored as a separate safetensors file, so that it
// can be read on its own.
namespace evenkeel {
namespace {

constexpr std::int64_t max_tensor_samples = std::int64_t{1} << 20;

[[noreturn]] void reject_body(const std::string& message, const std::string& hint = {}) {
  throw InputError("body", message, hint);
}

/// A field that must have one integer per sample or per token, if the request has it.
class IntegerField {
 public:
  IntegerField(const SampleTensors& tensors, std::string name) : tensors_(tensors), name_(std::move(name)) {
    const auto field = std::ranges::find(tensors.fields(), name_, &FieldSpec::name);
    if (field == tensors.fields().end()) return;
    tensor_ = tensors.file().find(name_);
    kind_ = field->kind;
    are_integers_ = tensors.file().has_integers(*tensor_) && field->dtype != DType::boolean &&
                    field->trailing.empty() && !is_counted(field->kind);
  }

  [[nodiscard]] bool is_present() const noexcept { return tensor_.has_value(); }
  void require_one_per_sample() const {
    if (are_integers_ && rule_of(kind_).is_per_sample()) return;
    reject_body(
        "field '" + name_ + "' is " + describe_tensor() + "; it must have one integer per sample",
        "Send it as a tensor of integers with the shape [" + std::to_string(tensors_.num_samples()) + "]");
  }
  [[nodiscard]] bool is_one_per_token() const noexcept {
    return are_integers_ && !rule_of(kind_).is_per_sample();
  }
  [[nodiscard]] std::vector<std::int64_t> read_values() const {
    return tensors_.file().read_integers(*tensor_, {0, tensors_.file().tensors()[*tensor_].rows()});
  }
  /// Describes the tensor, such as "F32 [3]".
  [[nodiscard]] std::string describe_tensor() const {
    const StoredTensor& tensor = tensors_.file().tensors()[*tensor_];
    return tensor.stored + " " + shape_text(tensor.shape);
  }
  /// Returns the field's rows that belong to the sample with these lengths at this place in the request.
  [[nodiscard]] RowRange rows_of(const TensorSample& lengths, const TensorPlace& place) const noexcept {
    if (rule_of(kind_).is_per_response_token()) return {place.response, place.response + lengths.response};
    return {place.token, place.token + lengths.prompt + lengths.response};
  }

 private:
  const SampleTensors& tensors_;
  const std::string name_;
  std::optional<std::size_t> tensor_;
  FieldKind kind_ = FieldKind::sample;
  bool are_integers_ = false;
};

void require_acceptable_tensors(const SampleTensors& tensors) {
  if (tensors.is_padded())
    reject_body("has padded samples", "Concatenate the values and add offsets, as evenkeel convert does");
  if (tensors.num_samples() > max_tensor_samples) {
    throw LimitError("body",
                     "has " + std::to_string(tensors.num_samples()) + " samples; at most " +
                         std::to_string(max_tensor_samples) + " are allowed in one request",
                     "Send fewer samples in a request");
  }
  if (tensors.ignored_content().empty()) return;
  const auto& [name, why] = tensors.ignored_content().front();
  reject_body("has a tensor '" + name + "' that does not form a field: " + why, "Leave it out");
}

JsonlSchema schema_of_tensors(const SampleTensors& tensors) {
  JsonlSchema schema;
  schema.empty = false;
  schema.fields = tensors.fields();
  schema.origins.resize(schema.fields.size());
  schema.kind_open.insert(tensors.undecided_fields().begin(), tensors.undecided_fields().end());
  for (std::size_t f = 0; f < schema.fields.size(); ++f) {
    if (!tensors.has_rows(f)) schema.element_open.insert(schema.fields[f].name);
  }
  return schema;
}

template <typename Element>
std::span<const std::byte> bytes_of(const std::vector<Element>& elements) {
  return std::as_bytes(std::span(elements));
}

/// Builds the bodies of samples, one sample at a time.
class BodyMaker {
 public:
  explicit BodyMaker(const SampleTensors& tensors)
      : tensors_(tensors), rows_(tensors.fields().size() + 1), num_rows_(tensors.fields().size()) {
    FieldKinds kinds;
    for (const FieldSpec& field : tensors.fields()) kinds[field.name] = field.kind;
    if (!kinds.empty()) metadata_[std::string(tensor_names::field_kinds)] = text_of(kinds);
  }

  std::string make_body(std::int64_t sample, const TensorSample& lengths, const TensorPlace& place,
                        const Uid& uid) {
    read(sample, lengths, place);
    const std::int64_t length = lengths.prompt + lengths.response;
    views_.clear();
    field_offsets_.clear();
    field_offsets_.reserve(rows_.size());
    add_tokens(length);
    const std::vector<std::int64_t> offsets{0, length};
    const std::vector<std::int64_t> prompt{lengths.prompt};
    add(tensor_names::offsets, DType::int64, {2}, bytes_of(offsets));
    add(tensor_names::prompt_lengths, DType::int64, {1}, bytes_of(prompt));
    std::vector<std::int64_t> of_uid;
    if (const auto* const text = std::get_if<std::string>(&uid)) {
      of_uid = {0, std::ssize(*text)};
      add(tensor_names::uid, DType::uint8, {std::ssize(*text)}, std::as_bytes(std::span(*text)));
      add(tensor_names::uid_offsets, DType::int64, {2}, bytes_of(of_uid));
    } else {
      of_uid = {std::get<std::int64_t>(uid)};
      add(tensor_names::uid, DType::int64, {1}, bytes_of(of_uid));
    }
    for (std::size_t f = 0; f < tensors_.fields().size(); ++f) add_field(f);
    content_ = hash_of_views();
    return safetensors_bytes(views_, metadata_);
  }

  /// Returns the content hash of the latest body.
  [[nodiscard]] std::uint32_t content_hash() const noexcept { return content_; }

 private:
  /// Hashes the tensors of the body. Excludes the metadata, which also depends on the request's other
  /// samples, and the versions, which may differ when a producer sends the sample again.
  [[nodiscard]] std::uint32_t hash_of_views() const {
    std::uint64_t hash = 0;
    for (const TensorView& view : views_) {
      if (view.name == "version" || view.name == "versions") continue;
      hash = mix_64(hash ^ static_cast<std::uint64_t>(view.dtype));
      for (const auto part :
           {std::as_bytes(std::span(view.name)), std::as_bytes(std::span(view.shape)), view.bytes})
        hash = mix_64(hash ^ hash_of_bytes(part));
    }
    return static_cast<std::uint32_t>(hash);
  }

  void read(std::int64_t sample, const TensorSample& lengths, const TensorPlace& place) {
    std::vector<std::span<std::byte>> out;
    rows_[0].resize(static_cast<std::size_t>(lengths.prompt + lengths.response) * sizeof(std::int64_t));
    out.emplace_back(rows_[0]);
    for (std::size_t f = 0; f < tensors_.fields().size(); ++f) {
      const FieldSpec& field = tensors_.fields()[f];
      const std::int64_t rows = is_counted(field.kind)
                                    ? tensors_.num_counted_rows(f, sample)
                                    : field.rule().rows_of(lengths.prompt, lengths.response);
      num_rows_[f] = rows;
      rows_[f + 1].resize(static_cast<std::size_t>(rows) * field.row_bytes());
      out.emplace_back(rows_[f + 1]);
    }
    tensors_.read(sample, lengths, place, out);
  }

  void add(std::string_view name, DType dtype, std::vector<std::int64_t> shape,
           std::span<const std::byte> bytes) {
    views_.push_back({std::string(name), dtype, std::move(shape), bytes});
  }

  /// Writes tokens as 32-bit integers if all of them fit.
  void add_tokens(std::int64_t length) {
    const std::span tokens(reinterpret_cast<const std::int64_t*>(rows_[0].data()),
                           static_cast<std::size_t>(length));
    const bool are_small = std::ranges::all_of(
        tokens, [](std::int64_t token) { return token <= std::numeric_limits<std::int32_t>::max(); });
    if (!are_small) return add(input_ids_field, DType::int64, {length}, rows_[0]);
    small_tokens_.assign(tokens.begin(), tokens.end());
    add(input_ids_field, DType::int32, {length}, bytes_of(small_tokens_));
  }

  void add_field(std::size_t f) {
    const FieldSpec& field = tensors_.fields()[f];
    std::vector<std::int64_t> shape{num_rows_[f]};
    shape.insert(shape.end(), field.trailing.begin(), field.trailing.end());
    add(field.name, field.dtype, std::move(shape), rows_[f + 1]);
    if (!is_counted(field.kind)) return;
    field_offsets_.push_back({0, num_rows_[f]});
    add(offsets_name(field.name), DType::int64, {2}, std::as_bytes(std::span(field_offsets_.back())));
  }

  const SampleTensors& tensors_;
  std::vector<std::vector<std::byte>> rows_;  // the latest sample's tokens, then its values of each field
  std::vector<std::int64_t> num_rows_;        // the latest sample's number of rows of each field
  std::vector<std::int32_t> small_tokens_;
  std::vector<std::array<std::int64_t, 2>> field_offsets_;
  std::vector<TensorView> views_;
  std::map<std::string, std::string> metadata_;
  std::uint32_t content_ = 0;
};

std::string describe_elements(const FieldSpec& field) {
  const std::string dtype(name_of(field.dtype));
  return field.trailing.empty() ? dtype : dtype + " with rows of shape " + shape_text(field.trailing);
}

/// Determines the samples' versions from the fields `version` and `versions`.
class Versions {
 public:
  explicit Versions(const SampleTensors& tensors)
      : version_(tensors, "version"), versions_(tensors, "versions") {
    if (version_.is_present()) version_.require_one_per_sample();
    if (versions_.is_present() && !versions_.is_one_per_token()) {
      reject_body("field 'versions' is " + versions_.describe_tensor() +
                      "; it must have one integer per token or response token",
                  "Send it as a tensor of integers with one axis");
    }
    if (!version_.is_present() && !versions_.is_present())
      reject_body("has no field 'version'",
                  "Add the version of the policy that generated each sample, or versions with one per token");
    if (version_.is_present()) of_samples_ = version_.read_values();
    if (versions_.is_present()) of_tokens_ = versions_.read_values();
  }

  [[nodiscard]] std::int64_t version_of(std::int64_t sample, const TensorSample& lengths,
                                        const TensorPlace& place) const {
    const auto declared_version = [&] { return of_samples_[static_cast<std::size_t>(sample)]; };
    if (!versions_.is_present()) return declared_version();
    const RowRange rows = versions_.rows_of(lengths, place);
    const std::string name = "sample " + std::to_string(sample);
    if (rows.size() == 0)
      reject_body(name + ": field 'versions' has no version for a sample without tokens",
                  "Send version instead");
    const std::int64_t oldest =
        *std::min_element(of_tokens_.begin() + rows.begin, of_tokens_.begin() + rows.end);
    if (version_.is_present() && declared_version() != oldest) {
      reject_body(name + ": field 'version' is " + std::to_string(declared_version()) +
                      ", but the oldest version in 'versions' is " + std::to_string(oldest),
                  "Send the oldest version, or leave version out");
    }
    return oldest;
  }

 private:
  IntegerField version_;
  IntegerField versions_;
  std::vector<std::int64_t> of_samples_;
  std::vector<std::int64_t> of_tokens_;
};

}  // namespace

void ReceivedSamples::read_tensors() {
  static_cast<void>(body_.file());
  const SampleTensors tensors(std::make_unique<TensorFile>("body", body_.bytes()));
  require_acceptable_tensors(tensors);
  const std::int64_t size = tensors.num_samples();
  const std::vector<TensorSample> lengths = tensors.lengths({0, size});
  if (size == 0) return;
  const IntegerField index(tensors, "index");
  if (!index.is_present())
    reject_body("has no field 'index'",
                "Number the responses of a group, starting at 0, with one integer per sample");
  index.require_one_per_sample();
  const std::vector<std::int64_t> indexes = index.read_values();
  const Versions versions(tensors);
  if (std::holds_alternative<std::monostate>(tensors.uid_of(0)))
    reject_body("has no uid", "Give all responses to one prompt the same uid");
  BodyMaker maker(tensors);
  TensorPlace place;
  for (std::int64_t i = 0; i < size; ++i) {
    const TensorSample& sample = lengths[static_cast<std::size_t>(i)];
    Uid uid = tensors.uid_of(i);
    tensors_.push_back(maker.make_body(i, sample, place, uid));
    samples_.push_back({{{std::move(uid), indexes[static_cast<std::size_t>(i)]},
                         sample.prompt,
                         sample.response,
                         versions.version_of(i, sample, place),
                         0},
                        {},
                        i,
                        maker.content_hash()});
    place.token += sample.prompt + sample.response;
    place.response += sample.response;
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) samples_[i].body = tensors_[i];
  schema_ = schema_of_tensors(tensors);
}

JsonlSchema join_tensor_schemas(const JsonlSchema& so_far, const JsonlSchema& more) {
  if (so_far.empty || more.empty) return so_far.empty ? more : so_far;
  const auto reject = [](const std::string& field, const std::string& is, const std::string& was) {
    throw InputError("body", "field '" + field + "' " + is + "; in earlier samples it " + was,
                     "Give all samples the same fields, with the same kind, type and shape");
  };
  JsonlSchema joined = so_far;
  for (std::size_t i = 0; i < std::max(so_far.fields.size(), more.fields.size()); ++i) {
    const bool in_both =
        i < so_far.fields.size() && i < more.fields.size() && so_far.fields[i].name == more.fields[i].name;
    if (!in_both) {
      const bool is_new = i >= so_far.fields.size() ||
                          (i < more.fields.size() && more.fields[i].name < so_far.fields[i].name);
      if (is_new) reject(more.fields[i].name, "is present", "is missing");
      reject(so_far.fields[i].name, "is missing", "is present");
    }
    const FieldSpec& mine = more.fields[i];
    FieldSpec& field = joined.fields[i];
    const std::string& name = mine.name;
    const bool is_open = joined.kind_open.contains(name);
    const bool has_unknown_kind = more.kind_open.contains(name);
    const bool can_agree = field.kind == mine.kind ||
                           ((is_open || has_unknown_kind) && field.rule().is_cut() && mine.rule().is_cut());
    if (!can_agree)
      reject(name, "is a " + std::string(name_of(mine.kind)) + " field",
             "is a " + std::string(name_of(field.kind)) + " field");
    if (is_open && !has_unknown_kind) field.kind = mine.kind;
    if (!has_unknown_kind) joined.kind_open.erase(name);
    if (more.element_open.contains(name)) continue;
    if (joined.element_open.erase(name) > 0) {
      field.dtype = mine.dtype;
      field.trailing = mine.trailing;
    }
    if (field.dtype != mine.dtype || field.trailing != mine.trailing)
      reject(name, "is " + describe_elements(mine), "is " + describe_elements(field));
  }
  return joined;
}

}  // namespace evenkeel
