// Steps, their micro-batches and results (include/evenkeel/service/step.hpp).

#include "bindings/service/step.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/errors.hpp"
#include "bindings/layout.hpp"
#include "bindings/service/samples.hpp"
#include "bindings/service/service.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

std::vector<HeldMicroBatch> micro_batches_of(const std::shared_ptr<HeldStep>& self) {
  std::vector<HeldMicroBatch> held;
  for (std::size_t m = 0; m < self->step.micro_batches.size(); ++m) held.push_back({self, m});
  return held;
}

py::dict seconds_of(const HeldStep& self) {
  const PhaseSeconds& seconds = self.step.seconds;
  using namespace py::literals;
  return py::dict("read"_a = seconds.read, "gather"_a = seconds.gather, "plan"_a = seconds.plan,
                  "agree"_a = seconds.agree, "exchange"_a = seconds.exchange, "pack"_a = seconds.pack);
}

void put_rows(StepResults& results, std::size_t m, const std::string& name, const std::string& kind,
              const py::tuple& brought) {
  const auto rows = brought[1].cast<py::array>();
  FieldSpec spec = spec_of(name, brought[0].cast<std::string>(), kind, rows);
  if (is_counted(spec.kind)) {
    const std::vector<std::int64_t> of_samples = counts_of(name, spec.kind, rows, brought[2]);
    results.put(m, std::move(spec), of_samples, bytes_of(rows, name));
    return;
  }
  results.put(m, std::move(spec), bytes_of(rows, name));
}

/// Puts the dtype, rows and counts that `bring` returns. Any error is kept for all ranks, which would wait
/// for this one if it were thrown here.
void put(HeldStep& self, std::size_t m, const std::string& name, const std::string& kind,
         const py::object& bring) {
  const auto error = try_locally([&] {
    try {
      put_rows(self.results, m, name, kind, bring());
    } catch (py::error_already_set& raised) {
      throw_as_ours(raised, "result '" + name + "'");
    }
  });
  if (error) self.results.fail(*error);
}

// Over the block, which they keep.
template <typename Element>
py::array_t<Element> array_in(const MicroBatchArena& arena, const std::byte* first, std::size_t elements) {
  auto keeper = std::make_unique<std::shared_ptr<const std::byte>>(arena.lend());
  const py::capsule release(keeper.release(),
                            [](void* kept) { delete static_cast<std::shared_ptr<const std::byte>*>(kept); });
  return py::array_t<Element>(static_cast<py::ssize_t>(elements), reinterpret_cast<const Element*>(first),
                              release);
}

// The arena's copy of these values, or one more.
template <typename Element>
py::array_t<Element> in_arena(const MicroBatchArena& arena, std::string_view name,
                              std::span<const Element> values) {
  const std::byte* const copy = arena.find_copy(name, std::as_bytes(values));
  return copy == nullptr ? py::array_t<Element>(copy_of(values))
                         : array_in<Element>(arena, copy, values.size());
}

py::object arena_of(const HeldMicroBatch& self) {
  const MicroBatchArena& arena = self.get().tensors.arena;
  if (arena.bytes().empty()) return py::none();
  return array_in<std::uint8_t>(arena, arena.bytes().data(), arena.bytes().size());
}

// Fields as they are handed out, offsets where one copy brings them along.
py::list packed_fields(const HeldMicroBatch& self) {
  PackedMicroBatch& tensors = self.get().tensors;
  py::list fields;
  for (Column& column : tensors.fields) {
    py::tuple description = description_of(column);
    if (is_counted(column.spec().kind) && column.spec().rule().has_numbers() &&
        !column.samples().are_in_common())
      description[3] = in_arena(tensors.arena, offsets_name(column.spec().name), column.samples().offsets());
    fields.append(std::move(description));
  }
  return fields;
}

py::tuple packed_offsets(const HeldMicroBatch& self) {
  const PackedMicroBatch& tensors = self.get().tensors;
  return py::make_tuple(in_arena(tensors.arena, "cu_seqlens", tensors.layout.cu_seqlens()),
                        in_arena(tensors.arena, "cu_seqlens_padded", tensors.layout.cu_seqlens_padded()));
}

template <typename Part>
py::array_t<std::int64_t> each_sample(const HeldMicroBatch& self, Part&& part) {
  std::vector<std::int64_t> values;
  for (const SampleShape& shape : self.get().tensors.samples) values.push_back(part(shape));
  return array_of(std::move(values));
}

// A class of evenkeel._core; a copy, since its micro-batch may be gone before it is.
std::optional<PackedTreeLayout> tree_of(const HeldMicroBatch& self) {
  const std::optional<SharedSequences>& shared = self.get().tensors.shared;
  return shared ? std::optional(shared->tree) : std::nullopt;
}

std::optional<py::dict> schedule_of(const HeldMicroBatch& self) {
  const std::optional<SharedSequences>& shared = self.get().tensors.shared;
  return shared && shared->schedule ? std::optional(dict_of(*shared->schedule)) : std::nullopt;
}

std::optional<py::array_t<std::int64_t>> prediction_offsets_of(const HeldMicroBatch& self) {
  const std::optional<SharedSequences>& shared = self.get().tensors.shared;
  if (!shared) return std::nullopt;
  return copy_of(std::span<const std::int64_t>(shared->prediction_offsets));
}

std::optional<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>> shape_of(
    const HeldMicroBatch& self) {
  const std::optional<PackedShape>& shape = self.get().tensors.shape;
  if (!shape) return std::nullopt;
  return std::tuple(shape->rows, shape->sequences, shape->max_seqlen, shape->cp);
}

py::array_t<std::int32_t> small(std::span<const std::int32_t> values) {
  return copy_of(values);
}

}  // namespace

void bind_step(py::module_& module) {
  py::class_<HeldMicroBatch>(module, "MicroBatch")
      .def("fields", &packed_fields)
      .def("offsets", &packed_offsets)
      .def("arena", &arena_of)
      .def_property_readonly("samples",
                             [](const HeldMicroBatch& self) {
                               return each_sample(self, [](auto& shape) { return shape.id.value(); });
                             })
      .def_property_readonly("prompt_lengths",
                             [](const HeldMicroBatch& self) {
                               return each_sample(self, [](auto& shape) { return shape.prompt; });
                             })
      .def_property_readonly("response_lengths",
                             [](const HeldMicroBatch& self) {
                               return each_sample(self, [](auto& shape) { return shape.response; });
                             })
      .def_property_readonly("empty", [](const HeldMicroBatch& self) { return self.get().tensors.empty(); })
      .def_property_readonly("num_tokens",
                             [](const HeldMicroBatch& self) { return self.get().tensors.num_tokens(); })
      .def_property_readonly("mini_batch",
                             [](const HeldMicroBatch& self) { return self.get().mini_batch.value(); })
      .def_property_readonly("context",
                             [](const HeldMicroBatch& self) {
                               const ContextGroup& group = self.get().context;
                               return std::tuple(group.first.value(), group.size,
                                                 self.get().tensors.cp_rank.value());
                             })
      .def_property_readonly("scale", [](const HeldMicroBatch& self) { return self.get().loss.scale; })
      .def_property_readonly("mean_weight",
                             [](const HeldMicroBatch& self) { return self.get().loss.mean_weight; })
      .def_property_readonly("token_weights",
                             [](const HeldMicroBatch& self) {
                               return copy_of(std::span<const double>(self.get().loss.token_weights));
                             })
      .def_property_readonly("token_weights_ahead",
                             [](const HeldMicroBatch& self) {
                               py::list by_depth;
                               for (const std::vector<double>& weights : self.get().loss.token_weights_ahead)
                                 by_depth.append(copy_of(std::span<const double>(weights)));
                               return by_depth;
                             })
      .def_property_readonly("layout", [](const HeldMicroBatch& self) { return self.get().tensors.layout; })
      .def_property_readonly("tree", &tree_of)
      .def_property_readonly("schedule", &schedule_of)
      .def_property_readonly("prediction_offsets", &prediction_offsets_of)
      .def_property_readonly("padded_length",
                             [](const HeldMicroBatch& self) { return self.get().tensors.padded_length; })
      .def_property_readonly(
          "cu_seqlens",
          [](const HeldMicroBatch& self) { return small(self.get().tensors.layout.cu_seqlens()); })
      .def_property_readonly(
          "cu_seqlens_padded",
          [](const HeldMicroBatch& self) { return small(self.get().tensors.layout.cu_seqlens_padded()); })
      .def_property_readonly(
          "max_seqlen", [](const HeldMicroBatch& self) { return self.get().tensors.layout.max_seqlen(); })
      .def_property_readonly(
          "max_length", [](const HeldMicroBatch& self) { return self.get().tensors.layout.max_length(); })
      .def_property_readonly("shape", &shape_of);
  py::class_<HeldStep, std::shared_ptr<HeldStep>>(module, "Step")
      .def_property_readonly("index", [](const HeldStep& self) { return self.step.index; })
      .def_property_readonly("profile", [](const HeldStep& self) { return self.step.profile; })
      .def_property_readonly("num_samples", [](const HeldStep& self) { return self.step.num_samples; })
      .def_property_readonly("num_tokens", [](const HeldStep& self) { return self.step.num_tokens; })
      .def_property_readonly("num_loss_tokens",
                             [](const HeldStep& self) { return self.step.num_loss_tokens; })
      .def_property_readonly("waited", [](const HeldStep& self) { return self.step.waited; })
      .def_property_readonly("seconds", &seconds_of)
      .def_property_readonly("is_whole", [](const HeldStep& self) { return self.step.record != nullptr; })
      .def("micro_batches", &micro_batches_of)
      .def("put", &put, py::arg("micro_batch"), py::arg("name"), py::arg("kind"), py::arg("bring"));
}

}  // namespace evenkeel::python
