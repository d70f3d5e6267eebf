#include "config/import/resolvers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <variant>

namespace evenkeel::config_import {
namespace {

/// Python keeps integers and floats apart: 8192 * 2 is an integer, 8192 / 2 a float.
using Number = std::variant<std::int64_t, double>;
using MaybeNumber = std::optional<Number>;

double as_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

MaybeNumber finite(double value) {
  return std::isfinite(value) ? MaybeNumber(value) : std::nullopt;
}

/// An integer where both are and it fits, else what `on_doubles` makes of them.
template <class OnIntegers, class OnDoubles>
MaybeNumber combine(const Number& a, const Number& b, OnIntegers on_integers, OnDoubles on_doubles) {
  const auto* x = std::get_if<std::int64_t>(&a);
  const auto* y = std::get_if<std::int64_t>(&b);
  if (x == nullptr || y == nullptr) return finite(on_doubles(as_double(a), as_double(b)));
  std::int64_t result = 0;
  return on_integers(*x, *y, &result) ? std::nullopt : MaybeNumber(result);
}

MaybeNumber add(const Number& a, const Number& b) {
  return combine(
      a, b, [](auto x, auto y, auto* to) { return __builtin_add_overflow(x, y, to); },
      [](double x, double y) { return x + y; });
}

MaybeNumber subtract(const Number& a, const Number& b) {
  return combine(
      a, b, [](auto x, auto y, auto* to) { return __builtin_sub_overflow(x, y, to); },
      [](double x, double y) { return x - y; });
}

MaybeNumber multiply(const Number& a, const Number& b) {
  return combine(
      a, b, [](auto x, auto y, auto* to) { return __builtin_mul_overflow(x, y, to); },
      [](double x, double y) { return x * y; });
}

MaybeNumber divide(const Number& a, const Number& b) {
  return as_double(b) == 0 ? std::nullopt : finite(as_double(a) / as_double(b));
}

/// Towards minus infinity, as Python's // does.
MaybeNumber floor_divide(const Number& a, const Number& b) {
  if (as_double(b) == 0) return std::nullopt;
  const auto on_integers = [](std::int64_t x, std::int64_t y, std::int64_t* to) {
    if (y == -1) return __builtin_sub_overflow(std::int64_t{0}, x, to);
    *to = x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
    return false;
  };
  return combine(a, b, on_integers, [](double x, double y) { return std::floor(x / y); });
}

MaybeNumber modulo(const Number& a, const Number& b) {
  const MaybeNumber times = floor_divide(a, b);
  const MaybeNumber whole = times ? multiply(*times, b) : std::nullopt;
  return whole ? subtract(a, *whole) : std::nullopt;
}

MaybeNumber larger(const Number& a, const Number& b) {
  return as_double(b) > as_double(a) ? b : a;
}

MaybeNumber smaller(const Number& a, const Number& b) {
  return as_double(b) < as_double(a) ? b : a;
}

/// 2 ** 14; integers with small exponents only, which is what sizes are written with.
MaybeNumber power(const Number& a, const Number& b) {
  const auto* exponent = std::get_if<std::int64_t>(&b);
  if (exponent == nullptr || *exponent < 0 || *exponent > 62) return std::nullopt;
  MaybeNumber result = Number(std::int64_t{1});
  for (std::int64_t i = 0; i < *exponent && result; ++i) result = multiply(*result, a);
  return result;
}

MaybeNumber to_number(const Value& value) {
  if (!value.is_scalar()) return std::nullopt;
  const bool has_point = value.text.find_first_of(".eE") != std::string::npos &&
                         !value.text.starts_with("0x") && !value.text.starts_with("0X");
  if (!has_point) {
    if (const auto integer = as_integer(value)) return Number(*integer);
  }
  const auto number = as_number(value);
  return number ? MaybeNumber(*number) : std::nullopt;
}

std::string text_of(const Number& number) {
  if (const auto* integer = std::get_if<std::int64_t>(&number)) return std::to_string(*integer);
  const double value = std::get<double>(number);
  constexpr double most = 9007199254740992.0;
  if (std::floor(value) == value && std::fabs(value) < most)
    return std::to_string(static_cast<std::int64_t>(value)) + ".0";
  std::string text = std::to_string(value);
  return text.erase(text.find_last_not_of('0') + 1);
}

using Operation = MaybeNumber (*)(const Number&, const Number&);

/// A Python expression of numbers, + - * / // % ** and brackets.
class Expression {
 public:
  explicit Expression(std::string_view text) : rest_(text) {}

  MaybeNumber value() {
    const MaybeNumber number = sum(0);
    skip_blanks();
    return rest_.empty() ? number : std::nullopt;
  }

 private:
  static constexpr int deepest = 64;

  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size())); }

  bool take(std::string_view symbol) {
    skip_blanks();
    if (!rest_.starts_with(symbol)) return false;
    rest_.remove_prefix(symbol.size());
    return true;
  }

  MaybeNumber sum(int depth) {
    MaybeNumber left = product(depth);
    while (left) {
      const Operation apply = take("+") ? add : take("-") ? subtract : nullptr;
      if (apply == nullptr) break;
      const MaybeNumber right = product(depth);
      left = right ? apply(*left, *right) : std::nullopt;
    }
    return left;
  }

  MaybeNumber product(int depth) {
    MaybeNumber left = factor(depth);
    while (left) {
      const Operation apply = take("//")  ? floor_divide
                              : take("/") ? divide
                              : take("%") ? modulo
                              : take("*") ? multiply
                                          : nullptr;
      if (apply == nullptr) break;
      const MaybeNumber right = factor(depth);
      left = right ? apply(*left, *right) : std::nullopt;
    }
    return left;
  }

  MaybeNumber factor(int depth) {
    if (depth > deepest) return std::nullopt;
    if (take("-")) {
      const MaybeNumber number = factor(depth + 1);
      return number ? subtract(Number(std::int64_t{0}), *number) : std::nullopt;
    }
    MaybeNumber base = atom(depth);
    if (!base || !take("**")) return base;
    const MaybeNumber exponent = factor(depth + 1);
    return exponent ? power(*base, *exponent) : std::nullopt;
  }

  MaybeNumber atom(int depth) {
    if (take("(")) {
      const MaybeNumber number = sum(depth + 1);
      return take(")") ? number : std::nullopt;
    }
    if (take("int(")) {
      const MaybeNumber number = sum(depth + 1);
      if (!number || !take(")") || std::fabs(as_double(*number)) > 1e15) return std::nullopt;
      return Number(static_cast<std::int64_t>(as_double(*number)));
    }
    skip_blanks();
    std::size_t length = std::min(rest_.find_first_not_of("0123456789_."), rest_.size());
    const bool exponent = length > 0 && length + 1 < rest_.size() &&
                          (rest_[length] == 'e' || rest_[length] == 'E') &&
                          rest_.find_first_of("0123456789", length + 1) == length + 1;
    if (exponent) length = std::min(rest_.find_first_not_of("0123456789", length + 1), rest_.size());
    const MaybeNumber number = to_number(scalar(std::string(rest_.substr(0, length))));
    rest_.remove_prefix(length);
    return number;
  }

  std::string_view rest_;
};

Operation operation_of(std::string_view name) {
  struct Named {
    Operation operation;
    std::vector<std::string_view> names;
  };
  static const std::vector<Named> all{
      {multiply, {"mul", "multiply", "prod", "product", "times", "mul_int", "imul"}},
      {divide, {"div", "divide", "truediv"}},
      {floor_divide, {"int_div", "div_int", "idiv", "floordiv", "floor_div"}},
      {add, {"add", "sum", "plus"}},
      {subtract, {"sub", "subtract", "minus"}},
      {modulo, {"mod"}},
      {power, {"pow"}},
      {larger, {"max"}},
      {smaller, {"min"}}};
  for (const Named& named : all) {
    if (std::ranges::find(named.names, name) != named.names.end()) return named.operation;
  }
  return nullptr;
}

MaybeNumber fold(Operation operation, const std::vector<Value>& arguments) {
  MaybeNumber result = arguments.empty() ? std::nullopt : to_number(arguments.front());
  for (std::size_t i = 1; i < arguments.size() && result; ++i) {
    const MaybeNumber next = to_number(arguments[i]);
    result = next ? operation(*result, *next) : std::nullopt;
  }
  return result;
}

}  // namespace

std::optional<Value> resolve_arithmetic(std::string_view name, const std::vector<Value>& arguments) {
  if (name == "if" || name == "ifelse") {
    const auto condition = arguments.size() == 3 ? as_flag(arguments[0]) : std::nullopt;
    return condition ? std::optional(*condition ? arguments[1] : arguments[2]) : std::nullopt;
  }
  MaybeNumber number;
  if (name == "eval") {
    if (arguments.size() == 1 && arguments[0].is_scalar()) number = Expression(arguments[0].text).value();
  } else if (const Operation operation = operation_of(name); operation != nullptr && arguments.size() > 1) {
    number = fold(operation, arguments);
  }
  return number ? std::optional(scalar(text_of(*number))) : std::nullopt;
}

}  // namespace evenkeel::config_import
