#pragma once

#include <memory_resource>

#include "evenkeel/batch/field.hpp"

namespace evenkeel::testing_support {

/// Allocates new columns in the given memory during the lifetime of this object.
class ColumnsIn {
 public:
  explicit ColumnsIn(std::pmr::memory_resource& memory) : before_(set_column_memory(memory)) {}
  ColumnsIn(const ColumnsIn&) = delete;
  ColumnsIn& operator=(const ColumnsIn&) = delete;
  ~ColumnsIn() { set_column_memory(*before_); }

 private:
  std::pmr::memory_resource* before_;
};

}  // namespace evenkeel::testing_support
