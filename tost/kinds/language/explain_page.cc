#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/kinds/language/explain_report.h"
#include "tost/kinds/language/explain_sections.h"

namespace tost {
namespace {

constexpr Rgb kSurprise{0xd9, 0x4f, 0x2a};
constexpr size_t kWorst = 12;

std::string mixers_of(const TextReport& report) {
  std::vector<std::string> names;
  for (const auto& layer : report.trace.layers) {
    if (std::find(names.begin(), names.end(), layer.mixer) == names.end()) {
      names.push_back(layer.mixer);
    }
  }
  return join(names, ", ");
}

std::vector<int64_t> by_loss(const torch::Tensor& loss) {
  const auto order = loss.nan_to_num(-1).argsort(/*stable=*/true, 0, /*descending=*/true);
  return {order.data_ptr<int64_t>(), order.data_ptr<int64_t>() + order.numel()};
}

void add_worst(Page& page, const TextReport& report) {
  const auto loss = report.trace.loss[0].contiguous();
  Table table;
  table.caption = "The tokens that surprised most.";
  table.header = {"place", "token", "after", "−log p", "p", "expected instead"};
  for (const int64_t t : by_loss(loss)) {
    if (table.rows.size() == kWorst) break;
    const double value = loss[t].item<double>();
    const auto guess = report.trace.guess[0][t].item<int64_t>();
    table.rows.push_back({{cat(t + 2), true},
                          {report.passage.tokens[static_cast<size_t>(t + 1)], false, true},
                          {excerpt(report.passage, t)},
                          {number_text(value, 2), true},
                          {number_text(std::exp(-value), 4), true},
                          {visible_token(report.info.tokenizer.get(), guess)}});
  }
  page.table(table);
}

}  // namespace

std::string layer_name(const TextReport& report, int64_t layer) {
  return cat("layer ", layer, " (", report.trace.layers[static_cast<size_t>(layer - 1)].mixer, ")");
}

std::string number_text(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  return format_text("%.*f", digits, value);
}

std::string passage_text(const std::string& token) {
  std::string text;
  for (size_t at = 0; at < token.size();) {
    const auto is = [&](std::string_view mark) {
      return token.compare(at, mark.size(), mark) == 0;
    };
    if (is("↵")) {
      text += "↵\n";
      at += 3;
    } else if (is("·")) {
      text += "·\u200B";
      at += 2;
    } else {
      text += token[at++];
    }
  }
  return starts_with(token, "#") ? text + " " : text;
}

std::string excerpt(const Passage& passage, int64_t t) {
  constexpr size_t kMost = 24;
  std::vector<std::string> parts;
  size_t length = 0;
  for (int64_t i = t; i >= 0 && length < kMost; --i) {
    const auto& token = passage.tokens[static_cast<size_t>(i)];
    length += std::max<size_t>(1, token.size());
    parts.insert(parts.begin(), token);
  }
  const bool cut = t - int64_t(parts.size()) >= 0;
  return (cut ? "…" : "") + join(parts, starts_with(parts[0], "#") ? " " : "");
}

void add_text_facts(Page& page, const TextReport& report) {
  const auto& config = report.info.config;
  const auto& passage = report.passage;
  const auto tokenizer = report.info.tokenizer;
  const auto& loss = report.trace.loss;
  const double mean = loss.numel() > 0 ? loss.mean().item<double>() : std::nan("");
  std::vector<std::pair<std::string, std::string>> rows = {
      {"Model", cat(config.name, ", ", human_number(report.parameters), " parameters")},
      {"Shape", cat(config.depth, " layers of width ", config.dim, ", ", config.heads, " heads of ",
                    config.dim / config.heads)},
      {"Mixer", mixers_of(report)},
      {"Block", cat(human_number(config.block), " tokens, positions ", config.positions)},
      {"Tokenizer",
       tokenizer == nullptr
           ? cat("none: token ids of a vocabulary of ", human_number(config.vocab))
           : cat(tokenizer->kind(), ", ", human_number(tokenizer->vocab_size()), " tokens")},
      {"Passage", cat(human_number(int64_t(passage.ids.size())),
                      passage.ids.size() == 1 ? " token of " : " tokens of ", passage.source)}};
  if (loss.numel() > 0) {
    const double likely = report.trace.likely.to(torch::kDouble).mean().item<double>();
    rows.emplace_back("Its loss", cat(number_text(mean, 3), " nats a token, perplexity ",
                                      number_text(std::exp(mean), 2), "; ",
                                      number_text(100 * likely, 1), " % predicted as most likely"));
  }
  for (const auto& split : report.splits) {
    const auto& s = split.statistics;
    rows.emplace_back(cat("Loss, ", split.split),
                      cat(number_text(s.loss, 3), " ± ", number_text(s.loss_spread, 3), " over ",
                          human_number(s.windows), " windows of ", human_number(s.length),
                          " tokens of '", report.data, "'"));
  }
  rows.emplace_back("Checkpoint", report.checkpoint);
  page.facts(rows);
  for (const auto& note : passage.notes) page.note(note);
  for (const auto& sentence : report.left_out) page.note(sentence);
}

void add_surprise(Page& page, const TextReport& report) {
  const auto& passage = report.passage;
  page.section("surprise", "Surprise",
               "Each token coloured by −log p, given those before it. Full colour: no better than "
               "a guess among all tokens of the vocabulary. The first token is not predicted. A "
               "space is ·, a line's end ↵.");
  const double full = std::log(double(std::max<int64_t>(2, report.info.config.vocab)));
  std::vector<ColoredText> runs;
  for (size_t t = 0; t < passage.ids.size(); ++t) {
    const double loss = t == 0 ? 0 : report.trace.loss[0][int64_t(t) - 1].item<double>();
    runs.push_back({passage_text(passage.tokens[t]), kSurprise,
                    std::isfinite(loss) ? std::clamp(loss / full, 0.0, 1.0) : 1.0,
                    t == 0 ? "first token" : cat("−log p ", number_text(loss, 2))});
  }
  page.colored_text("surprise", runs);
  if (passage.ids.size() > 1) add_worst(page, report);
}

Page text_page(const TextReport& report, const std::string& title) {
  const std::string name = title.empty() ? cat("Inside ", report.info.config.name) : title;
  Page page(name, "What the layers of this language model do to a passage, token by token.");
  page.section("model", "Model and passage");
  add_text_facts(page, report);
  add_surprise(page, report);
  add_memberships(page, report);
  add_taken_tokens(page, report);
  add_gates(page, report);
  add_effects(page, report);
  add_influence_section(page, report);
  add_layer_curves(page, report);
  return page;
}

}  // namespace tost
