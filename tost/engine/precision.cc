#include "tost/engine/precision.h"

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {

namespace {

template <class Fits>
Precisions precisions_where(const Fits& fits) {
  Precisions found;
  for (size_t i = 0; i < std::size(kPrecisions); ++i) {
    if (fits(kPrecisions[i])) found.push_back(Precision(i));
  }
  return found;
}

template <class... Hint>
[[noreturn]] void fail_unknown(const std::string& name, const Precisions& known,
                               const Hint&... hint) {
  fail_usage("Unknown precision '", name, "' (known: ", list_of(known), ").", hint...);
}

}  // namespace

Precisions all_precisions() {
  return precisions_where([](const PrecisionFacts&) { return true; });
}

Precisions stored_precisions() {
  return precisions_where([](const PrecisionFacts& f) { return f.bits < 32; });
}

Precisions integer_precisions() {
  return precisions_where([](const PrecisionFacts& f) { return !f.modules; });
}

Precisions classifier_precisions(bool engine) {
  return precisions_where(
      [&](const PrecisionFacts& f) { return engine ? f.packing.has_value() : f.modules; });
}

std::vector<std::string> names_of(const Precisions& precisions) {
  std::vector<std::string> names;
  for (const Precision precision : precisions) names.emplace_back(name_of(precision));
  return names;
}

std::string list_of(const Precisions& precisions, const char* last) {
  std::string text;
  for (size_t i = 0; i < precisions.size(); ++i) {
    if (i > 0) text += i + 1 < precisions.size() ? ", " : last;
    text += name_of(precisions[i]);
  }
  return text;
}

std::optional<Precision> precision_named(const std::string& name, const Precisions& among) {
  for (const Precision precision : among) {
    if (name == name_of(precision)) return precision;
  }
  return std::nullopt;
}

Precision precision_from_name(const std::string& name, const Precisions& known) {
  if (const auto precision = precision_named(name)) return *precision;
  fail_unknown(name, known, did_you_mean(name, names_of(known)));
}

void check_modules_multiply(Precision precision) {
  if (facts_of(precision).modules) return;
  fail_unknown(name_of(precision), classifier_precisions(/*engine=*/false));
}

Packing packing_of(Precision precision) {
  const auto packing = facts_of(precision).packing;
  if (!packing) fail_unknown(name_of(precision), classifier_precisions(/*engine=*/true));
  return *packing;
}

}  // namespace tost
