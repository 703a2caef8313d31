#include "tost/study/sweep_plan.h"

#include <set>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/kinds.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr char kOptions[] = "model_options";
constexpr size_t kMostRuns = 10'000;

// {"model_options": {"heads": 8}} for "model_options.heads".
json setting(const std::string& key, const json& value) {
  const size_t dot = key.find('.');
  if (dot == std::string::npos) return {{key, value}};
  if (key.substr(0, dot) != kOptions || key.find('.', dot + 1) != std::string::npos) {
    fail_usage("The grid's key '", key, "' cannot be used: only model_options has fields, as in ",
               kOptions, ".heads.");
  }
  return {{kOptions, {{key.substr(dot + 1), value}}}};
}

std::string point_name(const std::string& key, const json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
  for (char& c : text) {
    if (!is_variant_name(std::string("a") + c)) c = '-';
  }
  const size_t dot = key.find('.');
  return key == "mixer" ? text : key.substr(dot == std::string::npos ? 0 : dot + 1) + "-" + text;
}

std::vector<SweepVariant> times(const std::vector<SweepVariant>& variants, const GridAxis& axis) {
  std::vector<SweepVariant> product;
  for (const SweepVariant& variant : variants) {
    for (const json& value : axis.values) {
      SweepVariant point = variant;
      point.settings = merge(point.settings, setting(axis.key, value));
      const std::string name = point_name(axis.key, value);
      point.name = point.name.empty() ? name : point.name + "_" + name;
      product.push_back(std::move(point));
    }
    if (product.size() > kMostRuns) break;
  }
  return product;
}

std::vector<SweepVariant> all_points(const SweepSpec& spec) {
  std::vector<SweepVariant> points = spec.variants;
  if (points.empty()) points.emplace_back();
  for (const GridAxis& axis : spec.grid) points = times(points, axis);
  if (points.size() * spec.seeds.size() > kMostRuns) {
    fail_usage("The sweep has more than ", kMostRuns, " runs; make its grid smaller.");
  }
  std::set<std::string> names;
  for (const SweepVariant& point : points) {
    if (!is_variant_name(point.name)) {
      fail_usage("The grid's values would make a variant named '", point.name,
                 "', which cannot be a folder; list the variants with names of your own.");
    }
    if (!names.insert(point.name).second) {
      fail_usage("The grid makes two variants named '", point.name,
                 "'; list them as variants with names of your own.");
    }
  }
  return points;
}

void check_reserved(const json& settings, const std::string& whose) {
  if (settings.contains("seed")) {
    fail_usage(whose, " has the setting seed; the sweep's list \"seeds\" gives it.");
  }
  if (settings.contains("from")) {
    fail_usage(whose,
               " has the setting from; a sweep trains its first stage itself: use "
               "\"pretrain\".");
  }
}

// The kind of run that the settings ask for.
const RunKind& check_settings(const json& settings, const std::string& variant) {
  try {
    const RunKind& kind = choose_run_kind(settings);
    const PreparedRun prepared = kind.prepare(settings, nullptr);
    if (kind.check) kind.check(prepared.config);
    return kind;
  } catch (const Error& error) {
    fail_usage("Variant '", variant, "' cannot be trained: ", error.what());
  }
}

PlannedRun plan_run(const SweepSpec& spec, const SweepVariant& point, int64_t seed) {
  const std::filesystem::path at = std::filesystem::path("runs") / point.name;
  PlannedRun run{.variant = point.name,
                 .seed = seed,
                 .settings = merge(spec.settings, point.settings),
                 .pretrain = {},
                 .folder = at / cat("seed-", seed),
                 .pretrain_folder = at / cat("seed-", seed, "-pretrain")};
  check_reserved(run.settings, cat("Variant '", point.name, "'"));
  run.settings["seed"] = seed;
  if (spec.pretrain && point.pretrained) {
    check_reserved(*spec.pretrain, "The first stage");
    run.pretrain = merge(run.settings, *spec.pretrain);
  }
  return run;
}

void check_scoring(const SweepSpec& spec, const RunKind& kind) {
  if (spec.corruptions && !kind.corruptible) {
    fail_usage("Corruptions are for pictures; leave them out.");
  }
  if (!kind.score && !spec.split.empty() && spec.split != "validation") {
    fail_usage(
        "Language models are scored by the validation loss that training reports; leave "
        "score out, or set its split to validation.");
  }
}

}  // namespace

SweepPlan make_plan(const SweepSpec& spec) {
  SweepPlan plan;
  for (const SweepVariant& point : all_points(spec)) {
    plan.variants.push_back(point.name);
    for (int64_t seed : spec.seeds) plan.runs.push_back(plan_run(spec, point, seed));
    PlannedRun& run = plan.runs.back();
    const RunKind& kind = check_settings(run.settings, point.name);
    if (run.pretrain) check_settings(*run.pretrain, point.name + " before fine-tuning");
    if (plan.kind == nullptr) plan.kind = &kind;
    if (plan.kind != &kind) {
      fail_usage("Variant '", point.name, "' trains a ", kind.name, " model and the first one a ",
                 plan.kind->name, " model; a sweep compares models of one kind.");
    }
  }
  check_scoring(spec, *plan.kind);
  return plan;
}

}  // namespace tost
