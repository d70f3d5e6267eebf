#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/output_file.hpp"
#include "io/safetensors/header.hpp"
#include "io/safetensors/safetensors.hpp"

namespace evenkeel {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors hold little-endian numbers");

using Json = nlohmann::ordered_json;

/// Returns the tensors in descending order of element size, which aligns each tensor to its element size.
/// Ties are in ascending order of name.
std::vector<const TensorStream*> sort_in_file_order(std::span<const TensorStream> tensors) {
  std::vector<const TensorStream*> order;
  for (const TensorStream& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, [](const TensorStream* a, const TensorStream* b) {
    return std::tuple(size_of(b->dtype), std::string_view(a->name)) <
           std::tuple(size_of(a->dtype), std::string_view(b->name));
  });
  return order;
}

std::string text_of(std::span<const std::int64_t> shape) {
  return "shape " + Json(shape).dump();
}

std::string describe_tensor(const std::string& name) {
  return "tensor '" + name + "'";
}

std::int64_t validate_and_count_bytes(const TensorStream& tensor) {
  if (tensor.name == safetensors::metadata_key)
    throw InputError(describe_tensor(tensor.name), "has a name that is reserved for the metadata",
                     "Rename the tensor");
  const std::optional<std::int64_t> bytes = safetensors::bytes_of(tensor.dtype, tensor.shape);
  if (!bytes) {
    const bool is_negative = std::ranges::any_of(tensor.shape, [](std::int64_t size) { return size < 0; });
    throw InputError(describe_tensor(tensor.name),
                     text_of(tensor.shape) + (is_negative ? " has a negative dimension"
                                                          : " has too many elements for 2^63 - 1 bytes"));
  }
  return *bytes;
}

void require_matching_bytes(const TensorStream& tensor, std::int64_t bytes, std::int64_t needed) {
  if (bytes == needed) return;
  throw InputError(describe_tensor(tensor.name),
                   "has " + format_plain_count(bytes, "byte") + "; " + text_of(tensor.shape) + " of " +
                       std::string(name_of(tensor.dtype)) + " needs " + std::to_string(needed));
}

Json header_of(std::span<const TensorStream* const> order,
               const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[std::string(safetensors::metadata_key)] = metadata;
  std::int64_t offset = 0;
  for (const TensorStream* tensor : order) {
    const std::int64_t end = offset + validate_and_count_bytes(*tensor);
    if (header.contains(tensor->name))
      throw InputError(describe_tensor(tensor->name), "appears twice", "Give each tensor its own name");
    header[tensor->name] = {{"dtype", safetensors::name_of(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  return header;
}

std::string pad_header_text(const Json& header) {
  try {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  } catch (const Json::exception& error) {
    throw InputError("safetensors header", std::string("cannot be written as UTF-8: ") + error.what());
  }
}

/// Returns the length of the header, followed by the header. `what` is the file's name in errors.
std::string make_header_bytes(std::span<const TensorStream* const> order,
                              const std::map<std::string, std::string>& metadata, const std::string& what) {
  const std::string header = pad_header_text(header_of(order, metadata));
  if (header.size() > safetensors::max_header_bytes) {
    throw InputError(what,
                     "needs a header of " + std::to_string(header.size()) +
                         " bytes; a safetensors file allows at most " +
                         std::to_string(safetensors::max_header_bytes),
                     "Write fewer tensors to one file, or use shorter names and metadata");
  }
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header;
}

std::vector<TensorStream> make_streams(std::span<const TensorView> tensors) {
  std::vector<TensorStream> streams;
  for (const TensorView& tensor : tensors) {
    streams.push_back(
        {tensor.name, tensor.dtype, tensor.shape, [&tensor](const TensorSink& sink) { sink(tensor.bytes); }});
    require_matching_bytes(streams.back(), std::ssize(tensor.bytes),
                           validate_and_count_bytes(streams.back()));
  }
  return streams;
}

}  // namespace

void stream_safetensors(const std::filesystem::path& path, std::span<const TensorStream> tensors,
                        const std::map<std::string, std::string>& metadata) {
  const std::vector<const TensorStream*> order = sort_in_file_order(tensors);
  const std::string first = make_header_bytes(order, metadata, path.string());
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(first)));
  for (const TensorStream* tensor : order) {
    std::int64_t written = 0;
    tensor->write([&](std::span<const std::byte> bytes) {
      file.write(bytes);
      written += std::ssize(bytes);
    });
    require_matching_bytes(*tensor, written, validate_and_count_bytes(*tensor));
  }
  file.commit();
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  stream_safetensors(path, make_streams(tensors), metadata);
}

std::string safetensors_bytes(std::span<const TensorView> tensors,
                              const std::map<std::string, std::string>& metadata) {
  const std::vector<TensorStream> streams = make_streams(tensors);
  const std::vector<const TensorStream*> order = sort_in_file_order(streams);
  std::string out = make_header_bytes(order, metadata, "safetensors");
  std::size_t bytes = out.size();
  for (const TensorView& tensor : tensors) bytes += tensor.bytes.size();
  out.reserve(bytes);
  for (const TensorStream* tensor : order) {
    tensor->write([&](std::span<const std::byte> data) {
      out.append(reinterpret_cast<const char*>(data.data()), data.size());
    });
  }
  return out;
}

}  // namespace evenkeel
