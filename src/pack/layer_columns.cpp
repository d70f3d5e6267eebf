#include "pack/layer_columns.hpp"

#include <algorithm>
#include <array>
#include <list>
#include <type_traits>
#include <utility>

#include "batch/integers.hpp"
#include "evenkeel/base/assertions.hpp"
#include "pack/row_writer.hpp"

namespace evenkeel {
namespace {

/// Elements that lie together in a row of the source, and so in one of a target, run after run.
struct ElementRun {
  std::size_t from = 0;
  std::size_t elements = 0;
};

std::size_t elements_in_row(const Column& column) {
  return column.row_bytes() / size_of(column.spec().dtype);
}

std::vector<ElementRun> runs_of(const Column& source, const LayerPart& part) {
  if (!part.layers) return {{0, elements_in_row(source)}};
  const std::int64_t all_layers = source.spec().trailing.front();
  const std::size_t in_layer =
      all_layers == 0 ? 0 : elements_in_row(source) / static_cast<std::size_t>(all_layers);
  std::vector<ElementRun> runs;
  for (const std::int64_t layer : *part.layers) {
    EVENKEEL_PRECONDITION(cheap, 0 <= layer && layer < all_layers, layer, all_layers);
    const std::size_t from = static_cast<std::size_t>(layer) * in_layer;
    if (!runs.empty() && runs.back().from + runs.back().elements == from) {
      runs.back().elements += in_layer;
    } else {
      runs.push_back({from, in_layer});
    }
  }
  return runs;
}

/// Elements that change their type wait in the nearest cache, so that they leave it as whole lines.
constexpr std::size_t converted_at_once = 512;

template <typename From, typename To>
void write_elements(const std::byte* from, std::size_t count, RowWriter& writer) {
  if constexpr (std::is_same_v<From, To>) {
    writer.copy(from, count * sizeof(To));
  } else {
    const From* source = reinterpret_cast<const From*>(from);
    std::array<To, converted_at_once> converted;
    while (count > 0) {
      const std::size_t some = std::min(count, converted.size());
      for (std::size_t i = 0; i < some; ++i) converted[i] = static_cast<To>(source[i]);
      writer.copy(reinterpret_cast<const std::byte*>(converted.data()), some * sizeof(To));
      source += some;
      count -= some;
    }
  }
}

/// A part on its way.
struct PartWriter {
  PartWriter(const Column& source, const LayerPart& part, std::size_t total_bytes, const RowFill& no_fill)
      : runs(runs_of(source, part)),
        writer(part.target->bytes().data(), total_bytes, no_fill, Sources::consecutive) {}

  std::vector<ElementRun> runs;  // of each row
  RowWriter writer;
};

/// Each row is read once, for all parts.
template <typename From, typename To>
void split_rows(const Column& source, std::span<const LayerPart> parts) {
  std::size_t total_bytes = 0;
  for (const LayerPart& part : parts) total_bytes += part.target->bytes().size();
  const RowFill no_fill({}, sizeof(To));
  std::list<PartWriter> writers;  // which stay where they are
  for (const LayerPart& part : parts) {
    if (part.target->row_bytes() > 0) writers.emplace_back(source, part, total_bytes, no_fill);
  }
  const std::byte* row = source.bytes().data();
  for (std::int64_t r = 0; r < source.rows(); ++r, row += source.row_bytes()) {
    for (PartWriter& part : writers) {
      for (const ElementRun& run : part.runs)
        write_elements<From, To>(row + run.from * sizeof(From), run.elements, part.writer);
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
      const RowFill no_fill({}, sizeof(To));
      RowWriter writer(result.bytes().data(), elements * sizeof(To), no_fill, Sources::consecutive);
      write_elements<From, To>(column.bytes().data(), elements, writer);
    });
  });
  return result;
}

}  // namespace evenkeel
