// The variational bound beside the exact rate, and what a layer's step does to its objective.
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/kinds/language/explain_sections.h"

namespace tost {
namespace {

Table rate_table(const ExplainedText& split) {
  Table table;
  table.caption = cat("Rates of w as the layer saw it; means over ", split.statistics.windows,
                      " windows of the ", data_of(split.split), ", nats.");
  table.header = {"layer", "bound, scale 1", "exact", "gap", "bound, scale C/ε²", "exact", "gap"};
  for (size_t i = 0; i < split.statistics.rates.size(); ++i) {
    const auto& layer = split.statistics.rates[i];
    if (layer.gaps.empty()) continue;
    auto& row = table.rows.emplace_back(std::vector<TableCell>{{cat(i + 1), true}});
    for (const auto& gap : layer.gaps) {
      for (const Spread& s : {gap.bound, gap.exact_heads, gap.gap}) {
        row.push_back({number_text(s.mean, 3), true});
      }
    }
  }
  return table;
}

Table objective_table(const TextReport& report, const ExplainedText& split) {
  Table table;
  table.caption =
      cat("The objective of the layer's input, before its step and after it; means over ",
          split.statistics.windows, " windows of the ", data_of(split.split),
          ", nats, and the share of windows in which it fell.");
  table.header = {"layer", "before", "after", "fell", "after, without LayerScale", "fell"};
  for (size_t i = 0; i < split.statistics.rates.size(); ++i) {
    const auto& layer = split.statistics.rates[i];
    if (layer.gaps.empty() || !report.trace.layers[i].descends) continue;
    const auto& step = layer.objective;
    table.rows.push_back({{cat(i + 1), true},
                          {number_text(step.before.mean, 4), true},
                          {number_text(step.stepped.mean, 4), true},
                          {number_text(100 * step.lowered, 0) + " %", true},
                          {number_text(step.unscaled.mean, 4), true},
                          {number_text(100 * step.lowered_unscaled, 0) + " %", true}});
  }
  return table;
}

// Layers with rates whose step is another than the gradient's.
std::vector<std::string> other_steps(const TextReport& report) {
  std::vector<std::string> names;
  const auto& rates = report.splits.back().statistics.rates;
  for (size_t i = 0; i < rates.size(); ++i) {
    const auto& layer = report.trace.layers[i];
    if (!rates[i].gaps.empty() && !layer.descends) {
      names.push_back(cat(i + 1, " (", layer.mixer, ")"));
    }
  }
  return names;
}

bool any_step(const TextReport& report) {
  const auto& rates = report.splits.back().statistics.rates;
  for (size_t i = 0; i < rates.size(); ++i) {
    if (!rates[i].gaps.empty() && report.trace.layers[i].descends) return true;
  }
  return false;
}

void add_objective(Page& page, const TextReport& report) {
  page.paragraph(
      "The objective is the bound at scale 1 of z U, z the normalised tokens that go into the "
      "layer, without its bias. The step adds γ₁ mixer(z) to them; Π is held at what it was, and "
      "the tokens are not normalised again, so that a step which lengthens them can raise it. The "
      "sums run over the whole window here too, where the layer follows those of the tokens so "
      "far.");
  for (const auto& split : report.splits) page.table(objective_table(report, split));
}

}  // namespace

void add_bound(Page& page, const TextReport& report) {
  if (!report.bound || report.splits.empty()) return;
  page.heading("Variational bound and exact rate");
  page.paragraph(
      "w are the layer's projected tokens (after its convolution, where it has one) and Π their "
      "memberships. Bound: R_var, for each head the mean over the tokens of its squared features, "
      "weighted by Π, through ½ log(1 + scale · x) and summed; exact: ½ logdet with the whole "
      "matrix of second moments in its place, at most the bound. Scale 1 is the f of the released "
      "layer, C / ε² the theory's with ε² = 0.01. The sums run over the whole window with each "
      "token's own membership; the layer itself sums over the tokens so far, and with decay "
      "forgets the far ones.");
  for (const auto& split : report.splits) page.table(rate_table(split));
  if (any_step(report)) add_objective(page, report);
  const auto others = other_steps(report);
  if (others.empty()) return;
  page.note(
      cat("What the step does to the objective is left out for layer",
          others.size() == 1 ? " " : "s ", join(others, ", "),
          ": R_var is not an objective of theirs. Only TSSA without first moments, convolution "
          "and gate adds a step of the form of R_var's gradient."));
}

}  // namespace tost
