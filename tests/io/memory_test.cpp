#include <gtest/gtest.h>

#include <exception>
#include <filesystem>
#include <new>
#include <vector>

#include "io/safetensors/safetensors.hpp"
#include "io/temporary_file.hpp"
#include "support/failing_new.hpp"

namespace evenkeel {
namespace {

using testing_support::FailingNew;
using testing_support::TemporaryFile;

// What opening the file throws when this one of its allocations fails.
std::exception_ptr error_without_memory(const std::filesystem::path& path, std::int64_t fails) {
  FailingNew::arm(fails);
  std::exception_ptr error;
  try {
    const SafetensorsFile file(path);
  } catch (...) {
    error = std::current_exception();
  }
  FailingNew::disarm();
  return error;
}

// A program of its own: its operator new fails when a test asks it to.
TEST(SafetensorsFile, that_lacks_memory_says_so_and_blames_no_file) {
  const TemporaryFile file(".safetensors");
  const std::vector<std::int64_t> values{1, 2, 3};
  write_safetensors(file.path(), {{{"values", DType::int64, {3}, std::as_bytes(std::span(values))}}},
                    {{"source", "a test"}});
  FailingNew::arm(-1);
  { const SafetensorsFile whole(file.path()); }
  const std::int64_t allocations = FailingNew::disarm();
  ASSERT_GT(allocations, 10);
  int errors = 0;
  for (std::int64_t fails = 0; fails < allocations; ++fails) {
    const std::exception_ptr error = error_without_memory(file.path(), fails);
    if (!error) continue;  // sorting does without memory of its own
    ++errors;
    EXPECT_THROW(std::rethrow_exception(error), std::bad_alloc) << "allocation " << fails;
  }
  EXPECT_GT(errors, 10);
}

}  // namespace
}  // namespace evenkeel
