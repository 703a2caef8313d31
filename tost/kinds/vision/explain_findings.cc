#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/explain/numbers.h"
#include "tost/kinds/vision/explain_images.h"
#include "tost/kinds/vision/explain_page_parts.h"

namespace tost {
namespace {

// Indices of the layers where `value` is finite, by value.
template <class Value>
std::vector<size_t> ordered_layers(size_t count, Value value) {
  std::vector<size_t> layers;
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(value(i))) layers.push_back(i);
  }
  std::stable_sort(layers.begin(), layers.end(),
                   [&](size_t a, size_t b) { return value(a) < value(b); });
  return layers;
}

template <class Value>
double mean_over_layers(const SplitStatistics& split, Value value) {
  std::vector<double> values;
  for (const LayerStatistics& layer : split.layers) values.push_back(value(layer));
  return spread_of(values).mean;
}

// What a rival mask scores on the same pictures, and whether the best one differs from it.
std::string rival_text(const MaskScore& best, const MaskScore& rival) {
  const Spread difference = paired_difference(best, rival);
  const double error = standard_error(difference);
  const std::string score =
      cat("scores ", with_deviation(rival.iou, rival.deviation, int64_t(rival.ious.size())));
  if (!std::isfinite(error)) return score;
  const bool apart = std::abs(difference.mean) > 2 * error;
  return cat(score, " (the head's lead over it in the same picture ", shown(difference.mean, 2),
             " ± ", shown(error, 1), ", standard error: ",
             !apart                ? "no difference to speak of"
             : difference.mean > 0 ? "the head is better"
                                   : "the head is worse",
             ")");
}

}  // namespace

std::string entropy_finding(const SplitStatistics& split) {
  const auto entropy = [&](size_t i) { return split.layers[i].entropy.mean; };
  const auto order = ordered_layers(split.layers.size(), entropy);
  if (order.empty()) return "";
  const double lowest = entropy(order.front());
  return cat("Heads are shared out most clearly in layer ", order.front() + 1, " (entropy ",
             near_one(lowest), " of log H) and least in layer ", order.back() + 1, " (",
             near_one(entropy(order.back())), "). ",
             lowest > 0.97   ? "That is next to uniform: memberships hardly distinguish tokens."
             : lowest > 0.85 ? "Memberships lean towards a head, but most tokens belong a little "
                               "to every one."
                             : "There tokens do choose their heads.");
}

std::string compression_finding(const SplitStatistics& split, double ceiling) {
  const auto after = [&](size_t i) { return split.layers[i].rate_after.mean; };
  const auto order = ordered_layers(split.layers.size(), after);
  if (order.empty()) return "";
  const size_t count = split.layers.size();
  int64_t falls = 0, steps = 0, lowered = 0, raised = 0;
  for (size_t i = 0; i < count; ++i) {
    const Spread& change = split.layers[i].rate_change;
    const double error = standard_error(change);
    lowered += change.mean < -2 * error;
    raised += change.mean > 2 * error;
    if (i > 0) {
      ++steps;
      falls += after(i) < after(i - 1);
    }
  }
  const double first = after(0), last = after(count - 1);
  const std::string direction = last < first - 0.005 * ceiling   ? "falls"
                                : last > first + 0.005 * ceiling ? "rises"
                                                                 : "stays about level";
  return cat("From the first to the last layer the rate after the residual ", direction, ", from ",
             shown(first, 4), " to ", shown(last, 4), " (ceiling ", shown(ceiling, 6), "), with ",
             falls, " of ", steps, " steps of the mean downwards. ",
             split.pictures < 2
                 ? std::string()
                 : cat("Compared in the same picture, the layer's own addition lowers the rate in ",
                       lowered, " of ", count, " layers and raises it in ", raised,
                       ", by more than two standard errors of the mean change."));
}

std::string correlation_finding(const SplitStatistics& split) {
  const double found =
      mean_over_layers(split, [](const auto& layer) { return layer.off_diagonal_mean; });
  if (!std::isfinite(found)) return "";
  const double chance =
      mean_over_layers(split, [](const auto& layer) { return layer.off_diagonal_chance; });
  const double share =
      mean_over_layers(split, [](const auto& layer) { return layer.diagonal_share.mean; });
  const double unit =
      mean_over_layers(split, [](const auto& layer) { return layer.diagonal_share_unit.mean; });
  const double centered =
      mean_over_layers(split, [](const auto& layer) { return layer.centered_off_diagonal_mean; });
  const double missed = 1 - share;
  return cat(
      "Is the diagonal statistic enough? In the second moments the layer takes, two features of a "
      "head correlate by ",
      shown(found), " on average; with the tokens' mean taken off, by ", shown(centered),
      " (independent ones would show ", shown(chance),
      " by chance). The full "
      "coding rate is ",
      percent(share), " of what the diagonal says at the released scale, and ", percent(unit),
      " with unit-norm heads. ",
      missed < 0.1   ? "So the diagonal says nearly all of it."
      : missed < 0.3 ? "So the diagonal says most of it, and misses a noticeable part."
      : found > 2 * centered
          ? "So the diagonal misses a good part, mostly because a head's features share the "
            "tokens' mean."
          : "So the diagonal misses a good part: features inside a head are far from "
            "uncorrelated.");
}

std::string spectra_finding(const std::vector<HeadSpectra>& spectra, int64_t width) {
  if (spectra.empty()) return "";
  std::vector<double> overlap, effective;
  int64_t lowest_rank = width;
  for (const HeadSpectra& layer : spectra) {
    overlap.push_back(layer.mean_overlap);
    effective.push_back(layer.effective_rank);
    lowest_rank = std::min(lowest_rank, layer.rank);
  }
  const double mean = spread_of(overlap).mean, chance = spectra.front().chance_overlap;
  const std::string coverage =
      lowest_rank == width
          ? cat("The heads together span the whole space of ", width, " dimensions in every layer")
          : cat("The heads together span at least ", lowest_rank, " of ", width, " dimensions");
  std::string sentence = cat(coverage, ", with an effective rank of ",
                             shown(spread_of(effective).mean), " on average.");
  if (!std::isfinite(mean)) return sentence;
  return cat(sentence, " Two heads' subspaces overlap by ", shown(mean),
             " (mean squared cosine); two random ones would by ", shown(chance), ": ",
             mean < 0.8 * chance   ? "training moved them apart."
             : mean > 1.2 * chance ? "they share more directions than chance would give."
                                   : "about what chance gives, so they are neither orthogonal, as "
                                     "the theory has them, nor alike.");
}

std::string norm_finding(const SplitStatistics& split, int64_t registers) {
  const auto share = [&](size_t i) { return split.layers[i].norms.beyond_deviations; };
  const auto order = ordered_layers(split.layers.size(), share);
  if (order.empty()) return "";
  const size_t worst = order.back();
  const NormStatistics& norms = split.layers[worst].norms;
  const bool artefacts = share(worst) > 0.001 && norms.beyond_medians > 0.001;
  const bool none = share(worst) == 0 && std::all_of(split.layers.begin(), split.layers.end(),
                                                     [](const LayerStatistics& layer) {
                                                       return !(layer.norms.beyond_medians > 0);
                                                     });
  std::string sentence =
      none ? std::string(
                 "In no layer is a token longer than the mean plus four deviations, or than three "
                 "medians: by these two criteria there are no high-norm artefacts. ")
           : cat("Most outliers are in layer ", worst + 1, ": ", percent(share(worst), 2),
                 " of its tokens are longer than the mean plus four deviations, ",
                 percent(norms.beyond_medians, 2), " longer than three medians. ",
                 artefacts
                     ? "These are high-norm tokens as large vision transformers grow them."
                     : "By these two criteria together high-norm artefacts are not to be seen. ");
  if (!artefacts) {
    sentence +=
        "Both look for a minority of long tokens; were most tokens long, only the "
        "distribution below would show it.";
  }
  if (registers == 0) {
    return cat(sentence,
               " To see the same with registers, train with --model-options "
               "'{\"registers\": 4}'.");
  }
  const NormStatistics& last = split.layers.back().norms;
  return cat(sentence, " After the last layer the ", registers, " registers are ",
             shown(last.register_mean), " long on average, patches ", shown(last.mean), ".");
}

std::string segmentation_finding(const Segmentation& s) {
  if (!std::isfinite(s.head.score.iou)) return "";
  const MaskScore& best = s.head.score;
  std::string sentence =
      cat("Chosen on half of the pictures, the best mask is ",
          best.complement ? "the complement of " : "",
          s.head.second ? "the patches whose membership is above its mean in head "
                        : "the patches whose most likely head is head ",
          best.group, " of layer ", s.head.layer, ". On the other half it scores IoU ",
          with_deviation(best.iou, best.deviation, int64_t(best.ious.size())),
          " (± the deviation over pictures), masks of its size placed at random ",
          shown(best.chance), ". ");
  if (std::isfinite(s.k_means.score.iou)) {
    sentence += cat("k-means, its layer and cluster chosen the same way (",
                    s.k_means.second ? "output" : "projected tokens", " of layer ", s.k_means.layer,
                    "), ", rival_text(best, s.k_means.score), "; ");
  }
  return cat(sentence, "the average object's place, which looks at no picture at all, ",
             rival_text(best, s.average_object), ".");
}

std::string bound_finding(const SplitStatistics& split) {
  if (split.layers.empty() || split.layers.front().gaps.empty()) return "";
  const auto relative = [](size_t scale) {
    return [scale](const LayerStatistics& layer) {
      return layer.gaps[scale].gap.mean / layer.gaps[scale].bound.mean;
    };
  };
  const double lowered =
      mean_over_layers(split, [](const auto& layer) { return layer.objective.lowered; });
  const double unscaled =
      mean_over_layers(split, [](const auto& layer) { return layer.objective.lowered_unscaled; });
  return cat("The bound lies above the exact rate in the heads' coordinates by ",
             percent(mean_over_layers(split, relative(0))),
             " of its value at the released scale 1, "
             "and by ",
             percent(mean_over_layers(split, relative(1))),
             " at the theory's d / ε². A layer's step lowers its own objective for ",
             percent(lowered), " of pictures on average as the network takes it, and for ",
             percent(unscaled), " without LayerScale.");
}

}  // namespace tost
