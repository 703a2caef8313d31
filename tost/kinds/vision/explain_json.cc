// The JSON of a report on an image classifier.

#include "tost/explain/report.h"
#include "tost/kinds/vision/explain_report.h"

namespace tost {
namespace {

using nlohmann::json;
using torch::Tensor;

json to_json(const MaskScore& score) {
  if (score.group == 0) return {};
  return {{"group", score.group},
          {"complement", score.complement},
          {"iou_where_chosen", number_or_null(score.chosen)},
          {"iou", number_or_null(score.iou)},
          {"std", number_or_null(score.deviation)},
          {"chance", number_or_null(score.chance)}};
}

json to_json(const BestMask& best, const char* first, const char* second) {
  if (best.layer == 0) return {};
  json object = to_json(best.score);
  object["layer"] = best.layer;
  object["of"] = best.second ? second : first;
  object["pictures"] = best.score.ious.size();
  return object;
}

// The mean over pictures with its standard error.
json difference_json(const MaskScore& first, const MaskScore& second) {
  const Spread difference = paired_difference(first, second);
  return {{"mean", number_or_null(difference.mean)},
          {"standard_error", number_or_null(standard_error(difference))}};
}

json to_json(const Segmentation& s) {
  json layers = json::array();
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const SegmentationLayer& layer = s.layers[i];
    json heads = json::array();
    for (size_t head = 0; head < layer.heads.size(); ++head) {
      const HeadScore& score = layer.heads[head];
      heads.push_back({{"head", head + 1},
                       {"hard_iou", number_or_null(score.hard_iou)},
                       {"soft_iou", number_or_null(score.soft_iou)},
                       {"auc", number_or_null(score.auc)},
                       {"average_precision", number_or_null(score.average_precision)}});
    }
    layers.push_back({{"layer", i + 1},
                      {"heads", heads},
                      {"best_hard", to_json(layer.hard)},
                      {"best_soft", to_json(layer.soft)},
                      {"k_means_on_projected", to_json(layer.k_means_w)},
                      {"k_means_on_output", to_json(layer.k_means_z)},
                      {"auc_head", layer.auc_head},
                      {"auc", number_or_null(layer.auc)},
                      {"average_precision", number_or_null(layer.average_precision)}});
  }
  return {{"pictures", s.pictures},
          {"skipped", s.skipped},
          {"object_share", number_or_null(s.object_share)},
          {"average_object", to_json(s.average_object)},
          {"best_head", to_json(s.head, "likeliest", "membership above its mean")},
          {"best_k_means", to_json(s.k_means, "projected", "output")},
          {"best_head_less_k_means", difference_json(s.head.score, s.k_means.score)},
          {"best_head_less_average_object", difference_json(s.head.score, s.average_object)},
          {"layers", layers}};
}

json to_json(const SplitStatistics& split, const VisionReport& report) {
  json layers = json::array();
  for (size_t i = 0; i < split.layers.size(); ++i) {
    const auto number_of = int64_t(i) + 1;
    json layer = to_json(split.layers[i], heads_shown(report.layers, report.heads, i), 3);
    layer["layer"] = number_of;
    layers.push_back(std::move(layer));
  }
  json object = {{"split", split.split},
                 {"pictures", split.pictures},
                 {"top1", number_or_null(double(split.right) / double(split.pictures))},
                 {"layers", layers}};
  if (split.segmentation) object["segmentation"] = to_json(*split.segmentation);
  return object;
}

json to_json(const HeadSpectra& s) {
  return {{"singular_values", rounded(s.singular_values, 6)},
          {"overlap", rounded(s.overlap, 5)},
          {"overlap_mean", number_or_null(s.mean_overlap)},
          {"overlap_by_chance", number_or_null(s.chance_overlap)},
          {"sum_singular_values", rounded(s.sum_values, 6)},
          {"basis_singular_values", rounded(s.basis_values, 6)},
          {"rank", s.rank},
          {"effective_rank", number_or_null(s.effective_rank)},
          {"basis_effective_rank", number_or_null(s.basis_effective_rank)},
          {"directions_of_99_percent", s.energy_rank}};
}

json to_json(const PictureSummary& p) {
  return {{"name", p.name},
          {"truth", p.truth.empty() ? json() : json(p.truth)},
          {"top", p.top},
          {"entropy", number_or_null(p.entropy)}};
}

json header_json(const VisionReport& r) {
  const VisionConfig& config = r.info.config;
  const bool linear = config.architecture == "linear";
  json left_out = json::array();
  for (const LeftOut& item : r.left_out) {
    left_out.push_back({{"panel", item.panel}, {"reason", item.reason}});
  }
  return {{"kind", "vision"},
          {"model", config.name},
          {"checkpoint", r.checkpoint},
          {"data", r.data.empty() ? json() : json(r.data)},
          {"parameters", r.parameters},
          {"mixer", linear ? json() : json(config.mixer)},
          {"layers", linear ? 0 : config.depth},
          {"heads", linear ? 0 : config.heads},
          {"registers", config.registers},
          {"left_out", left_out},
          {"class_names_differ", r.class_warning.empty() ? json() : json(r.class_warning)}};
}

}  // namespace

json to_json(const VisionReport& r) {
  json report = header_json(r);
  report["config"] = to_json(r.info.config);
  report["preprocess"] = to_json(r.info.preprocess);
  report["classes"] = r.info.classes;
  report["chosen_layers"] = r.layers;
  report["chosen_heads"] = r.heads;
  report["compression_ceiling"] =
      r.spectra.empty() ? json()
                        : json(compression_ceiling(r.info.config.dim / r.info.config.heads));
  for (const char* key : {"pictures", "other_pictures", "splits", "spectra"}) {
    report[key] = json::array();
  }
  for (const PictureMaps& maps : r.pictures) report["pictures"].push_back(to_json(maps));
  for (const PictureSummary& other : r.others) report["other_pictures"].push_back(to_json(other));
  for (const SplitStatistics& split : r.splits) {
    report["splits"].push_back(to_json(split, r));
  }
  for (size_t i = 0; i < r.spectra.size(); ++i) {
    json layer = to_json(r.spectra[i]);
    layer["layer"] = i + 1;
    report["spectra"].push_back(std::move(layer));
  }
  return report;
}

}  // namespace tost
