// The sections of a report's page; each adds itself, or nothing where its numbers are missing.
#pragma once

#include <string>
#include <vector>

#include "tost/kinds/vision/explain_report.h"
#include "tost/report/page.h"

namespace tost {

void add_picture_sections(Page& page, const VisionReport& report);
void add_other_pictures(Page& page, const VisionReport& report);

void add_entropy_section(Page& page, const VisionReport& report);
void add_compression_section(Page& page, const VisionReport& report);
void add_correlation_section(Page& page, const VisionReport& report);
void add_spectra_section(Page& page, const VisionReport& report);
void add_norm_section(Page& page, const VisionReport& report);
void add_segmentation_section(Page& page, const VisionReport& report);
void add_bound_section(Page& page, const VisionReport& report);

// How large maps over pictures are, and of which layers (from 1) they are made, so that
// `pictures` times layers times heads of them stay within the page's bound.
struct MapPlan {
  int64_t side = 0;
  std::vector<int64_t> layers;
};
MapPlan plan_maps(int64_t pictures, int64_t layers, int64_t heads);

// The split whose numbers panels show that show one; null without data.
const SplitStatistics* main_split(const VisionReport& report);

// What the numbers of a report say, in sentences computed from them (explain_findings.cc). Each is
// "" where its numbers are missing.
std::string entropy_finding(const SplitStatistics& split);
std::string compression_finding(const SplitStatistics& split, double ceiling);
std::string correlation_finding(const SplitStatistics& split);
std::string spectra_finding(const std::vector<HeadSpectra>& spectra, int64_t width);
std::string norm_finding(const SplitStatistics& split, int64_t registers);
std::string segmentation_finding(const Segmentation& segmentation);
std::string bound_finding(const SplitStatistics& split);

}  // namespace tost
