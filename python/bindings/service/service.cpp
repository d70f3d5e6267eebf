// The service (include/evenkeel/service, include/evenkeel/source).

#include "bindings/service/service.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/errors.hpp"
#include "bindings/service/gil.hpp"
#include "bindings/service/step.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

using SharedSamples = std::shared_ptr<RaggedBatch>;
using SharedStep = std::shared_ptr<HeldStep>;

// The same samples, over the same memory: Python may hold them, and hand them in again.
RaggedBatch lent(RaggedBatch& samples) {
  RaggedBatch same({samples.samples().begin(), samples.samples().end()});
  for (Column& column : samples.fields()) same.add_field(column.lent());
  same.set_contexts({samples.contexts().begin(), samples.contexts().end()});
  return same;
}

/// Calls Python from any thread.
RaggedBatch read_by(const py::object& reader, std::optional<std::int64_t> step) {
  const py::gil_scoped_acquire held;
  try {
    const py::object samples = step ? reader(*step) : reader();
    return lent(*samples.cast<SharedSamples>());
  } catch (py::error_already_set& raised) {
    throw_as_ours(raised, "reader");
  } catch (const py::cast_error&) {
    throw InputError("reader", "returned no Samples");
  }
}

/// Throws what `fail` raises on all ranks. The others make a service, which begins with the same agreement.
void fail_instead_of_making(const Communicator& ranks, const py::object& fail) {
  const auto error = try_locally([&] {
    try {
      fail();
    } catch (py::error_already_set& raised) {
      throw_as_ours(raised, "service");
    }
  });
  const py::gil_scoped_release release;
  require_ranks_of_one_group(ranks);
  fail_together(ranks, error);
}

std::unique_ptr<DataService> make_service(const Communicator& ranks, const Config& config,
                                          const std::optional<ServiceState>& from, bool accepts_changes) {
  const py::gil_scoped_release release;
  if (!from) return std::make_unique<DataService>(ranks, config);
  return std::make_unique<DataService>(ranks, config, *from,
                                       accepts_changes ? ChangedJob::accepted : ChangedJob::refused);
}

SharedStep first_pass(DataService& self, const py::object& reader, const std::string& profile) {
  const py::gil_scoped_release release;
  return std::make_shared<HeldStep>(self.step([&] { return read_by(reader, std::nullopt); }, profile));
}

SharedStep later_pass(DataService& self, const SharedStep& before, const std::string& profile,
                      const py::object& reader) {
  const bool adds = !reader.is_none();
  const py::gil_scoped_release release;
  const auto read = [&] { return read_by(reader, std::nullopt); };
  return std::make_shared<HeldStep>(adds ? self.step(std::move(before->step), profile, read)
                                         : self.step(std::move(before->step), profile));
}

SharedSamples collect(const DataService& self, const SharedStep& step) {
  const py::gil_scoped_release release;
  return std::make_shared<RaggedBatch>(self.collect(step->step, step->results));
}

SharedSamples collect_on(const DataService& self, const SharedStep& step, int root) {
  const py::gil_scoped_release release;
  return std::make_shared<RaggedBatch>(self.collect_on(step->step, step->results, root));
}

py::dict place_of(const DataService& self) {
  const Mesh& mesh = self.mesh();
  py::dict place;
  for (const auto& [name, axis] :
       {std::pair{"tp", Axis::tp}, {"cp", Axis::cp}, {"dp", Axis::dp}, {"pp", Axis::pp}})
    place[name] = py::make_tuple(mesh.here()[axis], mesh.grid().sizes()[axis]);
  return place;
}

/// Who runs micro-batches of a group together, of the places of one tp and pp; in the order of its members.
std::vector<int> ranks_of(const ContextGroup& group, GridPoint like, const Grid& grid) {
  std::vector<int> ranks;
  for (int place = group.first.value(); place < group.first.value() + group.size; ++place) {
    like.dp = place / grid.sizes().cp;
    like.cp = place % grid.sizes().cp;
    ranks.push_back(grid.rank_of(like).value());
  }
  return ranks;
}

std::vector<int> context_ranks(const DataService& self, const SharedStep& step, std::size_t micro_batch) {
  const Mesh& mesh = self.mesh();
  return ranks_of(step->step.micro_batches.at(micro_batch).context, mesh.here(), mesh.grid());
}

/// Of all tp and pp, group by group.
std::vector<std::vector<int>> all_context_groups(const DataService& self, const Config& config) {
  const Grid& grid = self.mesh().grid();
  const GridPoint& sizes = grid.sizes();
  std::vector<ContextGroup> groups;
  if (config.mesh.flexible_cp) {
    groups = context_groups(sizes.dp, config.mesh.max_cp.value_or(sizes.dp));
  } else {
    for (int dp = 0; dp < sizes.dp; ++dp) groups.push_back({DataPlace{dp * sizes.cp}, sizes.cp});
  }
  std::vector<std::vector<int>> all;
  for (const ContextGroup& group : groups)
    for (int pp = 0; pp < sizes.pp; ++pp)
      for (int tp = 0; tp < sizes.tp; ++tp) all.push_back(ranks_of(group, {tp, 0, 0, pp}, grid));
  return all;
}

std::unique_ptr<Steps> make_steps(DataService& self, py::object reader, std::int64_t steps,
                                  std::string profile) {
  auto kept = shared(std::move(reader));
  const auto read = [kept](std::int64_t step) { return read_by(*kept, step); };
  kept.reset();
  const py::gil_scoped_release release;
  return std::make_unique<Steps>(self.steps(read, steps, std::move(profile)));
}

SharedStep next_step(Steps& self) {
  const py::gil_scoped_release release;
  std::optional<Step> step = self.next();
  return step ? std::make_shared<HeldStep>(*std::move(step)) : nullptr;
}

}  // namespace

void bind_service(py::module_& module) {
  py::class_<Steps, std::unique_ptr<Steps, WithoutGil>>(module, "Steps")
      .def("next", &next_step)
      .def_property_readonly("in_background", &Steps::in_background);
  py::class_<SampleStream>(module, "Stream")
      .def(py::init(
               [](const Communicator& ranks, const Config& config, const std::vector<std::string>& profiles) {
                 const py::gil_scoped_release release;
                 return SampleStream(ranks, config, profiles);
               }),
           py::arg("ranks"), py::arg("config"), py::arg("profiles"))
      .def_property_readonly("num_steps", &SampleStream::num_steps)
      .def_property_readonly("num_samples", &SampleStream::num_samples)
      .def("read",
           [](SampleStream& self, std::int64_t step) {
             const py::gil_scoped_release release;
             return std::make_shared<RaggedBatch>(self.read(step));
           })
      .def(
          "publish",
          [](SampleStream& self, std::int64_t version) {
            const py::gil_scoped_release release;
            self.publish(version);
          },
          py::arg("version"))
      .def(
          "trained",
          [](SampleStream& self, std::int64_t next_step) {
            const py::gil_scoped_release release;
            self.trained(next_step);
          },
          py::arg("next_step"))
      .def("stop_waiting", &SampleStream::stop_waiting)
      .def("wait_again", &SampleStream::wait_again)
      .def("describe", [](SampleStream& self, ServiceState& state) {
        const py::gil_scoped_release release;
        self.describe(state);
      });
  py::class_<DataService, std::unique_ptr<DataService, WithoutGil>>(module, "Service")
      .def(py::init([](const Communicator& ranks, const Config& config,
                       const std::optional<ServiceState>& from, bool accepts_changes) {
             return std::unique_ptr<DataService, WithoutGil>(
                 make_service(ranks, config, from, accepts_changes).release());
           }),
           py::arg("ranks"), py::arg("config"), py::arg("state"), py::arg("accept_changes"))
      .def(
          "steps",
          [](DataService& self, py::object reader, std::int64_t steps, std::string profile) {
            return std::unique_ptr<Steps, WithoutGil>(
                make_steps(self, std::move(reader), steps, std::move(profile)).release());
          },
          py::arg("reader"), py::arg("steps"), py::arg("profile"), py::keep_alive<0, 1>())
      .def(
          "require_same_sources",
          [](DataService& self, SampleStream& stream) {
            const py::gil_scoped_release release;
            self.require_same_sources(stream);
          },
          py::arg("stream"))
      .def("first_pass", &first_pass, py::arg("reader"), py::arg("profile"))
      .def("later_pass", &later_pass, py::arg("step"), py::arg("profile"), py::arg("reader"))
      .def("collect", &collect, py::arg("step"))
      .def("collect_on", &collect_on, py::arg("step"), py::arg("root"))
      .def("report_time", [](const DataService& self, const SharedStep& step, std::size_t micro_batch,
                             double seconds) { self.report_time(step->step, micro_batch, seconds); })
      .def("state", &DataService::state)
      .def("place", &place_of)
      .def("context_ranks", &context_ranks, py::arg("step"), py::arg("micro_batch"))
      .def("context_groups", &all_context_groups, py::arg("config"));
}

void bind_state(py::module_& module) {
  py::class_<ServiceState>(module, "State")
      .def_readonly("next_step", &ServiceState::next_step)
      .def_property_readonly("has_sources", [](const ServiceState& self) { return !self.sources.empty(); })
      .def("to_text", [](const ServiceState& self) { return to_text(self); });
  module.def("fail_instead_of_making", &fail_instead_of_making, py::arg("ranks"), py::arg("fail"));
  module.def(
      "parse_state", [](const std::string& text) { return parse_state(text, "the state"); }, py::arg("text"));
}

}  // namespace evenkeel::python
