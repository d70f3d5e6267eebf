#pragma once

#include <cstdint>
#include <optional>

#include "report/step_figures.hpp"

namespace evenkeel {

/// Figures of many passes together, in the memory of a few: sums of counts, bytes and seconds, the worst of
/// what should be small, means of ratios.
class RunTotals {
 public:
  class Ratio {
   public:
    void add(double value) noexcept;
    /// 1 where nothing was added; so worst().
    [[nodiscard]] double mean() const noexcept {
      return count_ == 0 ? 1 : sum_ / static_cast<double>(count_);
    }
    [[nodiscard]] double worst() const noexcept { return count_ == 0 ? 1 : worst_; }

   private:
    std::int64_t count_ = 0;
    double sum_ = 0;
    double worst_ = 0;
  };

  void add(const StepFigures& figures);

  StepFigures latest;  ///< as it was added
  std::int64_t steps = 0;
  std::int64_t samples = 0, tokens = 0, aligned_tokens = 0, padded_tokens = 0;
  std::int64_t micro_batches = 0, lower_bound = 0, empty = 0, above_cap = 0, widest = 0;
  ExchangeVolume volume;
  std::vector<FieldFigures> fields;  ///< by name, of passes in which they travelled; the most of any of these
  std::int64_t column_bytes = 0;     ///< the most
  std::optional<SharingSavings> sharing;
  std::optional<ShapeFigures> shapes;
  std::int64_t tokens_repeated_by_cap = 0, unshared_rows = 0;
  Ratio dp_before, dp, micro_batch, step;  ///< of work, max over mean: as in StepFigures and StepBalance
  Ratio encoder_before, encoder;           ///< the same of an encoder's, where it is shared out
  PhaseSeconds seconds;
  double waited = 0;
};

}  // namespace evenkeel
