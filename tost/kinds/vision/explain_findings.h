// What the numbers of a report say, in sentences computed from them.
#pragma once

#include <string>
#include <vector>

#include "tost/kinds/vision/explain_report.h"

namespace tost {

// Each is "" where its numbers are missing.
std::string entropy_finding(const SplitStatistics& split);
std::string compression_finding(const SplitStatistics& split, double ceiling);
std::string correlation_finding(const SplitStatistics& split);
std::string spectra_finding(const std::vector<HeadSpectra>& spectra, int64_t width);
std::string norm_finding(const SplitStatistics& split, int64_t registers);
std::string segmentation_finding(const Segmentation& segmentation);
std::string bound_finding(const SplitStatistics& split);

}  // namespace tost
