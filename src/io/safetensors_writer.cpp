#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <tuple>

#include "evenkeel/base/error.hpp"
#include "io/atomic_file.hpp"
#include "io/safetensors.hpp"
#include "io/safetensors_header.hpp"

namespace evenkeel {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors hold little-endian numbers");

using Json = nlohmann::ordered_json;

/// Larger elements first, so that every tensor starts at a multiple of its element size; then by name.
std::vector<const TensorView*> in_file_order(std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, [](const TensorView* a, const TensorView* b) {
    return std::tuple(size_of(b->dtype), std::string_view(a->name)) <
           std::tuple(size_of(a->dtype), std::string_view(b->name));
  });
  return order;
}

void check(const TensorView& tensor) {
  const std::string where = "tensor '" + tensor.name + "'";
  if (tensor.name == safetensors::metadata_key) throw InputError(where, "has the name of the metadata");
  const std::optional<std::int64_t> bytes = safetensors::bytes_of(tensor.dtype, tensor.shape);
  const std::string shape = "shape " + Json(tensor.shape).dump();
  if (!bytes) throw InputError(where, shape + " has a negative dimension or too many elements");
  if (*bytes != static_cast<std::int64_t>(tensor.bytes.size())) {
    throw InputError(where, "has " + std::to_string(tensor.bytes.size()) + " bytes; " + shape + " of " +
                                std::string(name_of(tensor.dtype)) + " needs " + std::to_string(*bytes));
  }
}

Json header_of(std::span<const TensorView* const> order, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[std::string(safetensors::metadata_key)] = metadata;
  std::size_t offset = 0;
  for (const TensorView* tensor : order) {
    check(*tensor);
    if (header.contains(tensor->name)) throw InputError("tensor '" + tensor->name + "'", "is there twice");
    const std::size_t end = offset + tensor->bytes.size();
    header[tensor->name] = {{"dtype", safetensors::name_of(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  return header;
}

std::string padded_text(const Json& header) {
  try {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  } catch (const Json::exception& error) {
    throw InputError("safetensors header", std::string("cannot be written as UTF-8: ") + error.what());
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::vector<const TensorView*> order = in_file_order(tensors);
  const std::string header = padded_text(header_of(order, metadata));
  if (header.size() > safetensors::max_header_bytes) {
    throw InputError(path.string(), "needs a header of " + std::to_string(header.size()) +
                                        " bytes; safetensors allow " +
                                        std::to_string(safetensors::max_header_bytes));
  }
  const std::array<std::uint64_t, 1> length{header.size()};
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(length)));
  file.write(std::as_bytes(std::span(header)));
  for (const TensorView* tensor : order) file.write(tensor->bytes);
  file.commit();
}

}  // namespace evenkeel
