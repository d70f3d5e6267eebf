#pragma once

#include <memory>
#include <type_traits>

namespace evenkeel {

/// A function without arguments and result, to be called while the call that it is given to lasts: it refers
/// to what it was made from. Unlike std::function it takes no memory, which matters between collective calls.
class FunctionRef {
 public:
  template <typename Function>
  requires(!std::is_same_v<std::remove_cvref_t<Function>, FunctionRef>) FunctionRef(Function&& function)
  noexcept
      : function_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* f) { (*static_cast<std::add_pointer_t<Function>>(f))(); }) {}

  void operator()() const { call_(function_); }

 private:
  void* function_;
  void (*call_)(void*);
};

}  // namespace evenkeel
