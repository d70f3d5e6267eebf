#include "pack/layer_columns.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "batch/integers.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

/// Elements that lie together in rows of the source and of a target.
struct ElementRun {
  std::size_t from = 0;  ///< in a row of the source
  std::size_t to = 0;    ///< in a row of the target
  std::size_t elements = 0;
};

std::size_t elements_in_row(const Column& column) {
  return column.row_bytes() / size_of(column.spec().dtype);
}

std::vector<ElementRun> runs_of(const Column& source, const LayerPart& part) {
  if (!part.layers) return {{0, 0, elements_in_row(source)}};
  const std::int64_t all_layers = source.spec().trailing.front();
  const std::size_t in_layer =
      all_layers == 0 ? 0 : elements_in_row(source) / static_cast<std::size_t>(all_layers);
  std::vector<ElementRun> runs;
  std::size_t to = 0;
  for (const std::int64_t layer : *part.layers) {
    EVENKEEL_PRECONDITION(cheap, 0 <= layer && layer < all_layers, layer, all_layers);
    const std::size_t from = static_cast<std::size_t>(layer) * in_layer;
    if (!runs.empty() && runs.back().from + runs.back().elements == from) {
      runs.back().elements += in_layer;
    } else {
      runs.push_back({from, to, in_layer});
    }
    to += in_layer;
  }
  return runs;
}

template <typename From, typename To>
void convert(const std::byte* from, std::byte* to, std::size_t count) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, count * sizeof(To));
  } else {
    const From* const source = reinterpret_cast<const From*>(from);
    To* const target = reinterpret_cast<To*>(to);
    for (std::size_t i = 0; i < count; ++i) target[i] = static_cast<To>(source[i]);
  }
}

/// Rows of many bytes are split one after the other, so that each is read once for all targets.
template <typename From, typename To>
void split_rows(const Column& source, std::span<const LayerPart> parts) {
  struct Target {
    std::vector<ElementRun> runs;
    std::byte* next;
    std::size_t row_bytes;
  };
  std::vector<Target> targets;
  for (const LayerPart& part : parts) {
    if (part.target->row_bytes() > 0)
      targets.push_back({runs_of(source, part), part.target->bytes().data(), part.target->row_bytes()});
  }
  const std::byte* row = source.bytes().data();
  for (std::int64_t r = 0; r < source.rows(); ++r, row += source.row_bytes()) {
    for (Target& target : targets) {
      for (const ElementRun& run : target.runs)
        convert<From, To>(row + run.from * sizeof(From), target.next + run.to * sizeof(To), run.elements);
      target.next += target.row_bytes;
    }
  }
}

template <typename Act>
void with_element_size(std::size_t bytes, const Act& act) {
  switch (bytes) {
    case 1:
      return act(std::uint8_t{});
    case 2:
      return act(std::uint16_t{});
    case 4:
      return act(std::uint32_t{});
    default:
      return act(std::uint64_t{});
  }
}

}  // namespace

void copy_layers(const Column& source, std::span<const LayerPart> parts) {
  if (parts.empty() || source.bytes().empty()) return;
  const DType to = parts.front().target->spec().dtype;
  for (const LayerPart& part : parts) {
    EVENKEEL_PRECONDITION(cheap, part.target->spec().dtype == to && part.target->rows() == source.rows(),
                          part.target->spec().name, part.target->rows(), source.rows());
  }
  if (to == source.spec().dtype) {
    return with_element_size(size_of(to), [&]<typename T>(T) { split_rows<T, T>(source, parts); });
  }
  with_integer_type(source.spec().dtype, [&]<typename From>(From) {
    with_integer_type(to, [&]<typename To>(To) { split_rows<From, To>(source, parts); });
  });
}

Column with_dtype(const Column& column, DType dtype) {
  FieldSpec spec = column.spec();
  spec.dtype = dtype;
  Column result = Column::unwritten(std::move(spec), column.rows());
  const std::size_t elements = column.bytes().size() / size_of(column.spec().dtype);
  with_integer_type(column.spec().dtype, [&]<typename From>(From) {
    with_integer_type(dtype, [&]<typename To>(To) {
      convert<From, To>(column.bytes().data(), result.bytes().data(), elements);
    });
  });
  return result;
}

}  // namespace evenkeel
