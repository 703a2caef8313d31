#include "tost/base/error.h"
#include "tost/explain/numbers.h"
#include "tost/kinds/vision/explain_images.h"
#include "tost/kinds/vision/explain_page_parts.h"
#include "tost/report/chart.h"

namespace tost {
namespace {

template <class Pick>
Series score_series(const std::string& name, const Segmentation& scores, Pick pick,
                    bool dashed = false) {
  Series series{.name = name, .x = layer_axis(scores.layers.size()), .dashed = dashed};
  for (const SegmentationLayer& layer : scores.layers) series.y.push_back(pick(layer));
  return series;
}

Drawing score_chart(const Segmentation& scores) {
  LineChart chart;
  chart.title = "Match with the object";
  chart.x = {.label = "layer", .integer = true};
  chart.y = {.label = "IoU", .low = 0};
  chart.series = {
      score_series("most likely head", scores, [](const auto& l) { return l.hard.iou; }),
      score_series("membership above its mean", scores, [](const auto& l) { return l.soft.iou; }),
      score_series("k-means, projected tokens", scores,
                   [](const auto& l) { return l.k_means_w.iou; }),
      score_series("k-means, layer output", scores, [](const auto& l) { return l.k_means_z.iou; }),
      score_series(
          "most likely head's size at random", scores, [](const auto& l) { return l.hard.chance; },
          /*dashed=*/true)};
  chart.horizontal = {{scores.average_object.iou, "average object"},
                      {scores.object_share, "every token"}};
  return draw(chart);
}

std::string group_name(const MaskScore& score) {
  if (score.group == 0) return "–";
  return cat(score.complement ? "not " : "", score.group);
}

std::string iou_text(const MaskScore& score) {
  return with_deviation(score.iou, score.deviation, int64_t(score.ious.size()));
}

Table score_table(const Segmentation& scores) {
  Table table;
  table.header = {"layer",
                  "head",
                  "IoU",
                  "its chance",
                  "soft head",
                  "soft IoU",
                  "k-means projected",
                  "k-means output",
                  "AUC",
                  "average precision"};
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    const SegmentationLayer& layer = scores.layers[i];
    table.rows.push_back({number_cell(cat(i + 1)), number_cell(group_name(layer.hard)),
                          number_cell(iou_text(layer.hard)), number_cell(shown(layer.hard.chance)),
                          number_cell(group_name(layer.soft)), number_cell(iou_text(layer.soft)),
                          number_cell(iou_text(layer.k_means_w)),
                          number_cell(iou_text(layer.k_means_z)), number_cell(shown(layer.auc)),
                          number_cell(shown(layer.average_precision))});
  }
  table.caption = cat(
      "Best head (\"not 2\": everything but head 2), threshold and cluster are chosen on one half "
      "of the pictures and scored on the other; ± the deviation over pictures. AUC and average "
      "precision rate the membership of "
      "the best head as a score; without knowledge they are 0.5 and ",
      shown(scores.object_share), ".");
  return table;
}

Table head_table(const Segmentation& scores, const VisionReport& report) {
  Table table;
  table.header = {"layer",          "head", "IoU of most likely",
                  "IoU above mean", "AUC",  "average precision"};
  for (const int64_t layer : report.layers) {
    const auto& heads = scores.layers[size_t(layer - 1)].heads;
    for (const int64_t head : report.heads) {
      if (size_t(head) > heads.size()) continue;
      const HeadScore& score = heads[size_t(head - 1)];
      table.rows.push_back({number_cell(cat(layer)), number_cell(cat(head)),
                            number_cell(shown(score.hard_iou)), number_cell(shown(score.soft_iou)),
                            number_cell(shown(score.auc)),
                            number_cell(shown(score.average_precision))});
    }
  }
  return table;
}

}  // namespace

void add_segmentation_section(Page& page, const VisionReport& report) {
  const SplitStatistics* main = main_split(report);
  if (main == nullptr || !main->segmentation || main->segmentation->layers.empty()) return;
  const Segmentation& scores = *main->segmentation;
  page.section("segmentation", "Do heads find the object?", segmentation_finding(scores));
  if (scores.pictures < 2) {
    page.note(
        scores.pictures + scores.skipped < 2
            ? "Scores need two pictures or more, one to choose and one to score: raise --samples."
            : "Fewer than two of the pictures have an object of at least one patch: no scores.");
    return;
  }
  page.chart(
      "segmentation", score_chart(scores),
      cat("Intersection over union with the large object's patches, ", scores.pictures, " ",
          main->split, " pictures",
          scores.skipped > 0
              ? cat(" (", scores.skipped, " more have an object smaller than a patch)")
              : std::string(),
          ". The average object's place: the patches that hold it in half of the pictures."));
  page.table(score_table(scores));
  page.begin_details("Every head of the chosen layers");
  page.table(head_table(scores, report));
  page.end_details();
}

}  // namespace tost
