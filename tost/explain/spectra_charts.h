// The spectra of one layer's heads as drawings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tost/explain/head_spectra.h"
#include "tost/report/drawing.h"

namespace tost {

inline constexpr size_t kNamedHeads = 8;  // that a chart can distinguish or a row holds

// The singular values of the first kNamedHeads of `heads` (from 1).
Drawing head_values_chart(const HeadSpectra& spectra, int64_t layer,
                          const std::vector<int64_t>& heads);
Drawing head_overlap_map(const HeadSpectra& spectra, int64_t layer);

}  // namespace tost
