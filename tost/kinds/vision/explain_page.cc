#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/explain/head_spectra.h"
#include "tost/explain/numbers.h"
#include "tost/kinds/vision/explain_images.h"
#include "tost/kinds/vision/explain_page_parts.h"
#include "tost/kinds/vision/explain_report.h"
#include "tost/report/chart.h"

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

namespace {

Drawing sum_values(const VisionReport& report) {
  LineChart chart;
  chart.title = "Singular values of [U₁ … U_H]";
  chart.x = {.label = "direction", .integer = true};
  chart.y = {.label = "singular value", .low = 0};
  for (const int64_t layer : report.layers) {
    const auto& spectra = report.spectra[size_t(layer - 1)];
    if (!spectra.sum_values.defined()) continue;
    const auto values = to_vector(spectra.sum_values);
    chart.series.push_back({.name = cat("layer ", layer),
                            .x = layer_axis(values.size()),
                            .y = values,
                            .dotted_points = false});
  }
  return draw(chart);
}

Table coverage_table(const VisionReport& report) {
  Table table;
  table.header = {"layer",
                  "rank",
                  "effective rank",
                  "directions of 99 % energy",
                  "effective rank of bases",
                  "overlap of heads",
                  "by chance"};
  for (size_t i = 0; i < report.spectra.size(); ++i) {
    const HeadSpectra& s = report.spectra[i];
    table.rows.push_back(
        {number_cell(cat(i + 1)), number_cell(cat(s.rank)), number_cell(shown(s.effective_rank)),
         number_cell(cat(s.energy_rank)), number_cell(shown(s.basis_effective_rank)),
         number_cell(shown(s.mean_overlap)), number_cell(shown(s.chance_overlap))});
  }
  table.caption =
      cat("How much of the ", report.info.config.dim,
          "-dimensional space the heads cover together. "
          "Effective rank: exp of the entropy of the singular values' shares; of the bases: the "
          "same with each U_k replaced by an orthonormal basis, so that scale does not count. "
          "Overlap: mean squared cosine of the principal angles between two heads' subspaces.");
  return table;
}

}  // namespace

void add_spectra_section(Page& page, const VisionReport& report) {
  if (report.spectra.empty()) return;
  page.section("spectra", "The heads' subspaces",
               spectra_finding(report.spectra, report.info.config.dim));
  std::vector<std::pair<std::string, Drawing>> values, overlaps;
  for (const int64_t layer : report.layers) {
    const HeadSpectra& spectra = report.spectra[size_t(layer - 1)];
    if (!spectra.singular_values.defined()) {
      page.note(
          cat("Layer ", layer, " has weights that are not finite; its spectra are left out."));
      continue;
    }
    values.emplace_back(cat("head-spectra-layer-", layer),
                        head_values_chart(spectra, layer, report.heads));
    overlaps.emplace_back(cat("head-overlap-layer-", layer), head_overlap_map(spectra, layer));
  }
  if (!values.empty()) {
    page.charts(values, report.heads.size() > kNamedHeads
                            ? "The first eight of the chosen heads; report.json holds all."
                            : "");
    page.charts(overlaps);
    page.chart("sum-spectra", sum_values(report));
  }
  page.table(coverage_table(report));
}

}  // namespace tost
