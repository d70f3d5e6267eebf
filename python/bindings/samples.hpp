#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "evenkeel/plan/length_table.hpp"

namespace evenkeel::python {

/// What Python tells about the samples of a step: one entry a sample in every list that is given.
struct Samples {
  std::vector<std::int64_t> prompts;
  std::vector<std::int64_t> responses;
  std::vector<std::int64_t> groups;
  std::vector<std::int64_t> loss_tokens;
  std::vector<std::vector<std::int64_t>> tokens;
};

/// Lists of Python's, None for those that are not given. Throws InputError for what are no whole numbers.
[[nodiscard]] Samples samples_from(pybind11::handle prompts, pybind11::handle responses,
                                   const pybind11::object& groups, const pybind11::object& loss_tokens);

/// Throws InputError unless a list has one entry a sample.
void require_one_a_sample(std::size_t given, const LengthTable& table, const std::string& name);

/// The samples in the order in which they are told. Throws InputError for negative lengths, lists of
/// different sizes and more loss tokens than tokens. Needs no GIL.
[[nodiscard]] LengthTable table_of(const Samples& samples);

}  // namespace evenkeel::python
