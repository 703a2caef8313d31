// The sections of a language model's page; explain_page.cc puts them in order.
#pragma once

#include "tost/kinds/language/explain_report.h"
#include "tost/report/page.h"

namespace tost {

// What several sections need.
inline const TextLayer& layer_at(const TextReport& report, int64_t layer) {
  return report.trace.layers[static_cast<size_t>(layer - 1)];
}
std::string layer_name(const TextReport& report, int64_t layer);  // "layer 2 (tssa)"
std::string number_text(double value, int digits);                // "–" for what is not finite
// A token as it is written in a passage: lines end after "↵" and may break after "·".
std::string passage_text(const std::string& token);
// The tokens up to and including place `t`, at most 24 characters and no line break.
std::string excerpt(const Passage& passage, int64_t t);

void add_text_facts(Page& page, const TextReport& report);
void add_surprise(Page& page, const TextReport& report);
void add_memberships(Page& page, const TextReport& report);
void add_taken_tokens(Page& page, const TextReport& report);
void add_gates(Page& page, const TextReport& report);
void add_effects(Page& page, const TextReport& report);
void add_influence_section(Page& page, const TextReport& report);
void add_layer_curves(Page& page, const TextReport& report);
// Nothing unless asked for.
void add_bound(Page& page, const TextReport& report);

}  // namespace tost
