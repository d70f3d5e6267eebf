#include "io/samples/sample_spool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 18;

}  // namespace

SpooledBytes::SpooledBytes(const std::filesystem::path& beside) : beside_(beside) {
  std::string name = beside.string() + ".tmp-XXXXXX";
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) throw system_error(beside.string(), "cannot be created", errno);
  ::unlink(name.c_str());
}

SpooledBytes::SpooledBytes(SpooledBytes&& other) noexcept
    : beside_(std::move(other.beside_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      buffer_(std::move(other.buffer_)) {}

SpooledBytes::~SpooledBytes() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SpooledBytes::write(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  size_ += std::ssize(bytes);
  if (buffer_.size() >= buffer_bytes) flush();
}

void SpooledBytes::flush() {
  for (std::span<const std::byte> left = buffer_; !left.empty();) {
    const ssize_t written = ::write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error(beside_.string(), "cannot be written", errno);
    left = left.subspan(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

void SpooledBytes::read(std::span<std::byte> out, std::int64_t offset) {
  if (!buffer_.empty()) flush();
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw system_error(beside_.string(), "cannot be written: its temporary file cannot be read", errno);
    if (got == 0) throw IoError(beside_.string(), "cannot be written: its temporary file is incomplete");
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

void SampleSpool::add(const RaggedBatch& batch) {
  if (is_first_) {
    for (const Column& column : batch.fields()) {
      specs_.push_back(column.spec());
      columns_.emplace_back(beside_);
      counts_.emplace_back();
    }
  }
  is_first_ = false;
  samples_.insert(samples_.end(), batch.samples().begin(), batch.samples().end());
  const bool same = std::ranges::equal(batch.fields(), specs_, {}, &Column::spec);
  if (!same)
    throw InputError(beside_.string(), "cannot hold samples with different fields",
                     "Give all samples the same fields");
  for (std::size_t f = 0; f < columns_.size(); ++f) {
    const Column& column = batch.fields()[f];
    columns_[f].write(column.bytes());
    for (std::int64_t i = 0; i < column.samples().size(); ++i)
      counts_[f].push_back(column.samples()[i].size());
  }
}

}  // namespace evenkeel
