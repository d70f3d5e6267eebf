// Samples and their fields (include/evenkeel/batch).

#include "bindings/service/samples.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/words.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

constexpr std::array dtypes{Word<DType>{DType::boolean, "bool"},    Word<DType>{DType::uint8, "uint8"},
                            Word<DType>{DType::int8, "int8"},       Word<DType>{DType::int16, "int16"},
                            Word<DType>{DType::uint16, "uint16"},   Word<DType>{DType::int32, "int32"},
                            Word<DType>{DType::uint32, "uint32"},   Word<DType>{DType::int64, "int64"},
                            Word<DType>{DType::float16, "float16"}, Word<DType>{DType::bfloat16, "bfloat16"},
                            Word<DType>{DType::float32, "float32"}, Word<DType>{DType::float64, "float64"}};
static_assert(dtypes.size() == all_dtypes.size());

FieldKind kind_of(const std::string& word, const std::string& where) {
  if (const FieldRule* const rule = find_rule(word)) return rule->kind;
  std::string known;
  for (const FieldRule& rule : all_field_rules())
    known += (known.empty() ? "" : ", ") + std::string(rule.name);
  throw InputError(where, "is '" + word + "'; it can be " + known);
}

// NumPy's name of it: of as many bytes, where it has none.
std::string numpy_name(DType dtype) {
  return dtype == DType::bfloat16 ? "int16" : std::string(word_of(dtypes, dtype));
}

/// Of integers and texts; nothing is said by None, so that each sample is a group of its own.
std::vector<std::uint64_t> groups_of(py::handle groups, const std::vector<std::int64_t>& ids) {
  std::vector<std::uint64_t> numbers;
  if (groups.is_none()) {
    for (const std::int64_t id : ids) numbers.push_back(own_group(id));
    return numbers;
  }
  const bool is_list = PyList_Check(groups.ptr()) || PyTuple_Check(groups.ptr());
  const auto is_text = [](py::handle entry) { return py::isinstance<py::str>(entry); };
  const py::object entries = py::reinterpret_borrow<py::object>(groups);
  if (is_list && std::any_of(entries.begin(), entries.end(), is_text)) {
    for (const py::handle entry : entries) {
      if (!is_text(entry)) throw InputError("groups", "mix texts with what is none");
      numbers.push_back(group_of_uid(entry.cast<std::string>()));
    }
    return numbers;
  }
  for (const std::int64_t number : integers_of(groups, "groups")) numbers.push_back(group_of_uid(number));
  return numbers;
}

RaggedBatch make_samples(py::handle ids, py::handle groups, py::handle prompts, py::handle responses) {
  const std::vector<std::int64_t> id = integers_of(ids, "ids");
  const std::vector<std::uint64_t> group = groups_of(groups, id);
  const std::vector<std::int64_t> prompt = integers_of(prompts, "prompt_lengths");
  const std::vector<std::int64_t> response = integers_of(responses, "response_lengths");
  for (const auto& [name, size] : {std::pair{"groups", group.size()},
                                   {"prompt_lengths", prompt.size()},
                                   {"response_lengths", response.size()}}) {
    if (size == id.size()) continue;
    throw InputError(name,
                     "has " + std::to_string(size) + " entries for " + std::to_string(id.size()) + " ids");
  }
  std::vector<SampleShape> shapes;
  shapes.reserve(id.size());
  for (std::size_t i = 0; i < id.size(); ++i)
    shapes.push_back({SampleId{id[i]}, group[i], prompt[i], response[i]});
  return RaggedBatch(std::move(shapes));
}

void add_field(RaggedBatch& samples, const std::string& name, const std::string& dtype,
               const std::string& kind, const py::array& rows, const py::object& counts) {
  FieldSpec spec = spec_of(name, dtype, kind, rows);
  const std::span<const std::byte> bytes = bytes_of(rows, name);
  if (is_counted(spec.kind)) {
    SampleRows of_samples = SampleRows::of_counts(counts_of(name, spec.kind, rows, counts));
    Column column = Column::unwritten(std::move(spec), std::move(of_samples));
    std::ranges::copy(bytes, column.bytes().begin());
    samples.add_field(std::move(column));
    return;
  }
  const std::int64_t wanted = samples.rows_of(spec.kind);
  if (rows.shape(0) != wanted) {
    throw InputError("field '" + name + "'", "has " + std::to_string(rows.shape(0)) + " rows; its kind, " +
                                                 kind + ", has " + std::to_string(wanted) +
                                                 " over all samples");
  }
  Column column = Column::unwritten(std::move(spec), wanted);
  std::ranges::copy(bytes, column.bytes().begin());
  samples.add_field(std::move(column));
}

template <typename Part>
py::array_t<std::int64_t> each(const RaggedBatch& samples, Part&& part) {
  std::vector<std::int64_t> values;
  values.reserve(samples.samples().size());
  for (const SampleShape& shape : samples.samples()) values.push_back(part(shape));
  return array_of(std::move(values));
}

// Where each sample's rows are: offsets [samples + 1], or [samples, 2] of where they begin and end.
py::array places_of(const SampleRows& samples) {
  if (!samples.are_in_common()) return copy_of(samples.offsets());
  py::array_t<std::int64_t> places(std::vector<py::ssize_t>{samples.size(), 2});
  auto place = places.mutable_unchecked<2>();
  for (std::int64_t i = 0; i < samples.size(); ++i) {
    place(i, 0) = samples[i].begin;
    place(i, 1) = samples[i].end;
  }
  return places;
}

py::list fields_of(RaggedBatch& samples) {
  py::list fields;
  for (Column& column : samples.fields()) fields.append(description_of(column));
  return fields;
}

}  // namespace

py::tuple description_of(Column& column) {
  const FieldSpec& spec = column.spec();
  py::object places = py::none();
  if (is_counted(spec.kind)) places = places_of(column.samples());
  return py::make_tuple(spec.name, word_of(dtypes, spec.dtype), name_of(spec.kind), std::move(places),
                        rows_of(column));
}

std::vector<std::int64_t> counts_of(const std::string& name, FieldKind kind, const py::array& rows,
                                    const py::object& counts) {
  const std::string where = "field '" + name + "'";
  if (counts.is_none()) {
    throw InputError(
        where, "is of " + std::string(name_of(kind)) + ", for which each sample has its own number of rows",
        "Pass one value a sample, or rows with offsets");
  }
  std::vector<std::int64_t> numbers = integers_of(counts, where);
  const std::int64_t total = SampleRows::of_counts(numbers).rows();
  if (rows.shape(0) != total) {
    throw InputError(
        where, "has " + std::to_string(rows.shape(0)) + " rows; its samples have " + std::to_string(total));
  }
  return numbers;
}

FieldSpec spec_of(const std::string& name, const std::string& dtype, const std::string& kind,
                  const py::array& rows) {
  FieldSpec spec{name,
                 value_of(dtypes, dtype, "dtype of field '" + name + "'"),
                 kind_of(kind, "kind of field '" + name + "'"),
                 {}};
  for (py::ssize_t d = 1; d < rows.ndim(); ++d) spec.trailing.push_back(rows.shape(d));
  if (rows.ndim() == 0) throw InputError("field '" + name + "'", "is a single number; rows are needed");
  if (static_cast<std::size_t>(rows.itemsize()) != size_of(spec.dtype)) {
    throw InputError("field '" + name + "'",
                     "has elements of " + std::to_string(rows.itemsize()) + " bytes, which are no " + dtype);
  }
  return spec;
}

py::array rows_of(Column& column) {
  const FieldSpec& spec = column.spec();
  const bool is_own = !column.is_borrowed();
  std::vector<py::ssize_t> shape{column.rows()};
  shape.insert(shape.end(), spec.trailing.begin(), spec.trailing.end());
  auto keeper = std::make_unique<std::shared_ptr<const std::byte>>(column.lend());
  const std::byte* const data = keeper->get();
  const py::capsule release(keeper.release(),
                            [](void* kept) { delete static_cast<std::shared_ptr<const std::byte>*>(kept); });
  py::array rows(py::dtype(numpy_name(spec.dtype)), shape, data, release);
  if (!is_own) rows.attr("flags").attr("writeable") = false;
  return rows;
}

void bind_samples(py::module_& module) {
  py::class_<RaggedBatch, std::shared_ptr<RaggedBatch>>(module, "Samples")
      .def(py::init([](py::handle ids, py::handle groups, py::handle prompts, py::handle responses) {
             return std::make_shared<RaggedBatch>(make_samples(ids, groups, prompts, responses));
           }),
           py::arg("ids"), py::arg("groups"), py::arg("prompt_lengths"), py::arg("response_lengths"))
      .def("add", &add_field, py::arg("name"), py::arg("dtype"), py::arg("kind"), py::arg("rows"),
           py::arg("counts") = py::none())
      .def("fields", &fields_of)
      .def("__len__", &RaggedBatch::size)
      .def_property_readonly(
          "ids",
          [](const RaggedBatch& self) { return each(self, [](auto& shape) { return shape.id.value(); }); })
      .def_property_readonly("groups",
                             [](const RaggedBatch& self) {
                               return each(
                                   self, [](auto& shape) { return static_cast<std::int64_t>(shape.group); });
                             })
      .def_property_readonly(
          "prompt_lengths",
          [](const RaggedBatch& self) { return each(self, [](auto& shape) { return shape.prompt; }); })
      .def_property_readonly("response_lengths", [](const RaggedBatch& self) {
        return each(self, [](auto& shape) { return shape.response; });
      });
}

}  // namespace evenkeel::python
