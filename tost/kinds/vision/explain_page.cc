#include "tost/kinds/vision/explain_page.h"

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/explain/numbers.h"
#include "tost/kinds/vision/explain_images.h"
#include "tost/kinds/vision/explain_page_parts.h"

namespace tost {
namespace {

void add_overview(Page& page, const VisionReport& report) {
  const VisionConfig& config = report.info.config;
  page.section("model", "The model");
  std::vector<std::pair<std::string, std::string>> rows{
      {"model", config.name}, {"parameters", human_number(report.parameters)}};
  if (config.architecture == "linear") {
    rows.emplace_back("architecture", "linear: pixels and one matrix");
  } else {
    rows.emplace_back("mixer", config.mixer);
    rows.emplace_back("layers",
                      cat(config.depth, ", and ", config.class_blocks, " class-attention blocks"));
    rows.emplace_back("width",
                      cat(config.dim, ", ", config.heads, " heads of ", config.dim / config.heads));
    rows.emplace_back("patches", cat(config.patch, " × ", config.patch, " pixels"));
    if (config.registers > 0) rows.emplace_back("registers", cat(config.registers));
  }
  rows.emplace_back("input", cat(report.info.preprocess.size, " × ", report.info.preprocess.size,
                                 config.in_channels == 1 ? ", grey" : ", colour"));
  rows.emplace_back("classes", human_number(int64_t(report.info.classes.size())));
  rows.emplace_back("checkpoint", report.checkpoint);
  if (!report.data.empty()) rows.emplace_back("data", report.data);
  for (const SplitStatistics& split : report.splits) {
    rows.emplace_back(cat("top-1, ", split.split),
                      cat(percent(double(split.right) / double(split.pictures)), " of ",
                          human_number(split.pictures), " pictures"));
  }
  page.facts(rows);
  if (!report.class_warning.empty()) page.note(report.class_warning);
  if (config.registers > 0) {
    page.note(cat("The ", config.registers,
                  " registers count as tokens in the rates, correlations and entropies of the "
                  "splits, as they do in the layers. Maps and entropies of single pictures, norms "
                  "and the match with objects are of the patches alone."));
  }
  for (const LeftOut& item : report.left_out) {
    page.note(cat(item.panel, ": ", item.reason));
  }
}

}  // namespace

Page vision_page(const VisionReport& report, const std::string& title) {
  Page page(title.empty() ? cat("Inside ", report.info.config.name) : title,
            "Layers and heads are counted from 1.");
  add_overview(page, report);
  add_picture_sections(page, report);
  add_other_pictures(page, report);
  add_entropy_section(page, report);
  add_compression_section(page, report);
  add_correlation_section(page, report);
  add_spectra_section(page, report);
  add_norm_section(page, report);
  add_segmentation_section(page, report);
  add_bound_section(page, report);
  return page;
}

}  // namespace tost
