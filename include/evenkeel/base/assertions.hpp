#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

// Checked contracts: a broken precondition or invariant is a bug, and is reported here.
//
// These are macros because a function would not work: the text of the condition is part of the message, and
// neither the condition nor its values may be evaluated if the level is off. The macros also record the
// place, since std::source_location would give the function's whole signature and the compiler's own path.
//
// This header is public because functions in public headers have preconditions. A program that includes them
// gets no checks unless it defines EVENKEEL_ASSERTION_LEVEL itself, regardless of how the library was built.

/// The highest level that is checked: 0 none, 1 cheap, 2 thorough, 3 communication. The build of Evenkeel
/// sets it from EVENKEEL_ASSERTIONS for its own sources.
#ifndef EVENKEEL_ASSERTION_LEVEL
#define EVENKEEL_ASSERTION_LEVEL 0
#endif

/// A constant expression: whether checks of a level are evaluated.
#define EVENKEEL_ASSERTS(level) \
  (static_cast<int>(::evenkeel::assertions::Level::level) <= (EVENKEEL_ASSERTION_LEVEL))

/// Ends the process unless `condition` holds, which is the caller's responsibility. The values after the
/// condition are printed with their names: integers, floating-point numbers, enumerators, ids, strings. If
/// the level is off, everything is compiled but not evaluated.
///
/// Example: EVENKEEL_PRECONDITION(cheap, 0 <= step && step < num_steps(), step, num_steps());
#define EVENKEEL_PRECONDITION(level, condition, ...) \
  EVENKEEL_ASSERTION_OF_KIND("precondition", level, condition, #condition, #__VA_ARGS__, __VA_ARGS__)

/// Same as EVENKEEL_PRECONDITION, but for a condition that is the function's own responsibility.
#define EVENKEEL_INVARIANT(level, condition, ...) \
  EVENKEEL_ASSERTION_OF_KIND("invariant", level, condition, #condition, #__VA_ARGS__, __VA_ARGS__)

/// Implements both macros. They pass the texts, which must be created before macros in them are expanded.
#define EVENKEEL_ASSERTION_OF_KIND(kind, level, condition, text, names, ...)                             \
  do {                                                                                                   \
    if constexpr (EVENKEEL_ASSERTS(level)) {                                                             \
      if (!(condition)) {                                                                                \
        ::evenkeel::assertions::abort_with(                                                              \
            {kind, text, names, __FILE__, static_cast<const char*>(__func__), __LINE__}, {__VA_ARGS__}); \
      }                                                                                                  \
    }                                                                                                    \
  } while (false)

namespace evenkeel::assertions {

/// Cost of a check.
enum class Level : std::uint8_t {
  cheap = 1,          ///< O(1), outside of inner loops
  thorough = 2,       ///< up to the cost of the guarded work, for instance to check that a list is sorted
  communication = 3,  ///< messages between ranks
};

/// A value printed with a violated condition.
class Value {
 public:
  template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
  constexpr Value(T value) noexcept : whole_(static_cast<std::int64_t>(value)) {
    if constexpr (std::same_as<T, bool>) {
      kind_ = Kind::truth;
    } else if constexpr (std::unsigned_integral<T>) {
      kind_ = Kind::natural;
    }
  }
  constexpr Value(double value) noexcept : kind_(Kind::floating), floating_(value) {}
  constexpr Value(std::string_view value) noexcept : kind_(Kind::text), text_(value) {}
  template <typename T>
  requires std::convertible_to<const T&, std::string_view>
  constexpr Value(const T& value) noexcept : Value(std::string_view(value)) {}
  template <typename Id>
  requires requires(const Id& id) {
    { id.value() } -> std::integral;
  }
  constexpr Value(const Id& id) noexcept : Value(id.value()) {}

 private:
  enum class Kind : std::uint8_t { whole, natural, truth, floating, text };
  friend struct ValueText;

  Kind kind_ = Kind::whole;
  std::int64_t whole_ = 0;
  double floating_ = 0;
  std::string_view text_;
};

/// The violated condition, and its location.
struct Violation {
  const char* kind;
  const char* condition;
  const char* names;  ///< names of the values, as written in the source
  const char* file;
  const char* function;
  int line;
};

/// Writes one line such as the following to standard error and aborts; with MPI, this ends the whole job:
/// precondition violated: 0 <= step && step < num_steps() (step = 7, num_steps() = 5)
///   at src/plan/schedule/batch_schedule.cpp:41 in size_of
[[noreturn]] void abort_with(const Violation& violation, std::initializer_list<Value> values) noexcept;

}  // namespace evenkeel::assertions
