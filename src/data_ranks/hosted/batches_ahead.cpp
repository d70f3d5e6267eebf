#include "data_ranks/hosted/batches_ahead.hpp"

#include <algorithm>
#include <utility>

namespace evenkeel {

BatchesAhead::BatchesAhead(std::int64_t first, std::int64_t end, std::int64_t depth, Reader read)
    : next_(first), depth_(std::max<std::int64_t>(1, depth)), read_(std::move(read)) {
  thread_ = std::jthread([this, end](const std::stop_token& stop) { read_all(stop, end); });
}

RaggedBatch BatchesAhead::take(std::int64_t step) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !ready_.empty() || end_; });
    if (ready_.empty()) std::rethrow_exception(end_);
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    if (batch.step < step) continue;
    if (const auto* error = std::get_if<std::exception_ptr>(&batch.content)) std::rethrow_exception(*error);
    return std::get<RaggedBatch>(std::move(batch.content));
  }
}

void BatchesAhead::read_all(const std::stop_token& stop, std::int64_t end) {
  std::exception_ptr failure;
  try {
    for (; next_ < end; ++next_) {
      {
        std::unique_lock lock(mutex_);
        const auto has_room = [&] { return std::ssize(ready_) < depth_; };
        if (!changed_.wait(lock, stop, has_room)) return;
      }
      Batch batch{next_, {}};
      try {
        batch.content = read_(next_);
      } catch (...) {
        batch.content = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  } catch (...) {
    failure = std::current_exception();  // no memory to hand one over
  }
  const std::lock_guard lock(mutex_);
  end_ = failure;
  changed_.notify_all();
}

}  // namespace evenkeel
