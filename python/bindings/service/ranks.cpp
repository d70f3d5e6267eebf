// Ranks that work together (include/evenkeel/mesh): MPI's, and those of a Python object.

#include "bindings/service/ranks.hpp"

#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/activity.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

// Python reads and writes the memory itself; it is not read-only there, since torch wants none that is.
py::memoryview view_of(std::span<const std::byte> bytes) {
  return py::memoryview::from_memory(const_cast<std::byte*>(bytes.data()),
                                     static_cast<py::ssize_t>(bytes.size()), false);
}

py::list list_of(std::span<const std::int64_t> numbers) {
  py::list list;
  for (const std::int64_t number : numbers) list.append(number);
  return list;
}

/// A Python object as a group of ranks. Its methods take memoryviews of bytes, and may be called by any
/// thread, one call at a time.
class PythonRanks final : public ForeignRanks {
 public:
  explicit PythonRanks(py::object ranks)
      : ranks_(std::move(ranks)),
        rank_(ranks_.attr("rank").cast<int>()),
        size_(ranks_.attr("size").cast<int>()),
        allows_threads_(ranks_.attr("allows_threads").cast<bool>()) {}
  PythonRanks(const PythonRanks&) = delete;
  PythonRanks& operator=(const PythonRanks&) = delete;
  ~PythonRanks() override {
    const py::gil_scoped_acquire held;
    ranks_ = py::object();
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] bool allows_threads() const override { return allows_threads_; }

  void broadcast(std::span<std::byte> bytes, int root) const override {
    call("broadcast", [&](const py::object& method) { method(view_of(bytes), root); });
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) const override {
    call("all_gather", [&](const py::object& method) { method(view_of(mine), view_of(all)); });
  }
  void all_gather_lists(const std::byte* mine, const ListSizes& lists, std::byte* all) const override {
    call("all_gather_lists", [&](const py::object& method) {
      std::vector<std::int64_t> sizes;
      for (const int size : lists.sizes) sizes.push_back(size * static_cast<std::int64_t>(lists.bytes_each));
      const auto own = static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank_)]);
      const auto total = static_cast<std::size_t>(std::reduce(sizes.begin(), sizes.end()));
      method(view_of({mine, own}), list_of(sizes), view_of({all, total}));
    });
  }
  void all_reduce(std::span<std::int64_t> values, Extreme which) const override {
    call("all_reduce", [&](const py::object& method) {
      method(view_of(std::as_bytes(values)), which == Extreme::largest);
    });
  }
  void all_to_all(std::span<const std::byte> out, std::span<const std::int64_t> out_bytes,
                  std::span<std::byte> in, std::span<const std::int64_t> in_bytes) const override {
    call("all_to_all", [&](const py::object& method) {
      method(view_of(out), list_of(out_bytes), view_of(in), list_of(in_bytes));
    });
  }
  [[nodiscard]] Communicator duplicate() const override {
    return made_by("duplicate", [](const py::object& method) { return method(); });
  }
  [[nodiscard]] Communicator split(int color, int key) const override {
    return made_by("split", [&](const py::object& method) { return method(color, key); });
  }
  [[nodiscard]] Communicator split_by_node() const override {
    return made_by("split_by_node", [](const py::object& method) { return method(); });
  }

 private:
  // What Python raises here may be this rank's alone, like an error of MPI.
  template <typename Call>
  void call(const char* name, Call&& with) const {
    const Waiting waiting(name);
    const py::gil_scoped_acquire held;
    try {
      with(ranks_.attr(name));
    } catch (py::error_already_set& error) {
      throw MpiError(std::string("process group, ") + name, error.what(),
                     "Do all ranks make the same calls?");
    }
  }
  template <typename Call>
  [[nodiscard]] Communicator made_by(const char* name, Call&& with) const {
    Communicator made;
    call(name, [&](const py::object& method) {
      py::object ranks = with(method);
      if (!ranks.is_none()) made = Communicator(std::make_shared<PythonRanks>(std::move(ranks)));
    });
    return made;
  }

  py::object ranks_;
  int rank_;
  int size_;
  bool allows_threads_;
};

// `address` is where mpi4py keeps the handle. The communicator stays mpi4py's.
Communicator ranks_of_mpi(std::uintptr_t address, const std::string& library) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string mine(text, static_cast<std::size_t>(length));
  if (library.substr(0, mine.find(',')) != mine.substr(0, mine.find(','))) {
    throw InputError("communicator", "is of " + library + "; this package was built with " + mine,
                     "Build both with the same MPI");
  }
  const MPI_Comm comm = *reinterpret_cast<const MPI_Comm*>(address);
  return Communicator(boost::mpi::communicator(comm, boost::mpi::comm_attach));
}

}  // namespace

void bind_ranks(py::module_& module) {
  py::class_<Communicator>(module, "Ranks")
      .def_property_readonly("rank", [](const Communicator& self) { return self.rank(); })
      .def_property_readonly("size", [](const Communicator& self) { return self.size(); });
  module.def("ranks_of_mpi", &ranks_of_mpi, py::arg("address"), py::arg("library"));
  module.def(
      "ranks_of_python",
      [](py::object ranks) { return Communicator(std::make_shared<PythonRanks>(std::move(ranks))); },
      py::arg("ranks"));
}

}  // namespace evenkeel::python
