// Rows of `tost bench model` as Markdown and JSON.
#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/study/model_bench.h"

namespace tost {
namespace {

using Json = BenchRowJson;

// Adds the time of each kind of work, such as work_products_ms; null if it was not measured.
Json work_json(const ModelBenchRow& r) {
  Json work;
  const bool measured = r.work_total_ms > 0;
  for (int k = 0; k < kernels::kWorkKinds; ++k) {
    std::string name = kernels::work_name(static_cast<kernels::Work>(k));
    std::replace(name.begin(), name.end(), ' ', '_');
    work[cat("work_", name, "_ms")] = measured ? Json(r.work_ms[size_t(k)]) : Json();
  }
  work["work_rest_ms"] = measured ? Json(r.work_rest_ms()) : Json();
  return work;
}

Json row_json(const ModelBenchRow& r, const BenchOrigin& o) {
  const bool done = r.missing.empty();
  Json row{{"model", r.model},
           {"kind", r.kind},
           {"mixer", r.mixer},
           {"test", r.test},
           {"batch", r.batch},
           {"size", r.size},
           {"threads", r.threads},
           {"device", r.device},
           {"precision", r.precision},
           {"engine", r.engine},
           {"missing", done ? Json() : Json(r.missing)},
           {"median_ms", measured(r.median_ms)},
           {"low_ms", measured(r.low_ms)},
           {"high_ms", measured(r.high_ms)},
           {"repeat", r.times_ms.size()},
           {"rate", measured(r.rate)},
           {"unit", r.unit},
           {"error", done ? Json(r.error) : Json()},
           {"peak_resident_bytes", r.peak_bytes > 0 ? Json(r.peak_bytes) : Json()},
           {"weight_bytes", r.weight_bytes > 0 ? Json(r.weight_bytes) : Json()},
           {"products_ms", measured(r.products_ms)},
           {"products_gflop", measured(r.products_gflop)},
           {"read_ms", measured(r.read_ms)},
           {"read_gb_per_s", measured(double(r.weight_bytes) / r.read_ms / 1e6)}};
  row.update(work_json(r));
  add_origin(row, o);
  return row;
}

std::string path_of(bool engine) {
  return engine ? "engine" : "plain";
}

std::string markdown_row(const ModelBenchRow& r) {
  std::vector<std::string> cells{r.model,
                                 r.mixer,
                                 r.test,
                                 std::to_string(r.batch),
                                 std::to_string(r.size),
                                 r.device == "cpu" ? std::to_string(r.threads) : r.device,
                                 name_of(r.precision),
                                 path_of(r.engine)};
  if (!r.missing.empty()) {
    cells.insert(cells.end(), {"–", "–", "–", "–", "–", r.missing});
  } else {
    cells.insert(
        cells.end(),
        {cat(three_digits(r.median_ms), " [", three_digits(r.low_ms), ", ", three_digits(r.high_ms),
             "]"),
         cat(format_text(r.rate < 100 ? "%.1f" : "%.0f", r.rate), " ", r.unit),
         share(r.products_ms, r.median_ms), share(r.read_ms, r.median_ms),
         r.peak_bytes > 0 ? human_bytes(r.peak_bytes) : "–", format_text("%.1e", r.error)});
  }
  return markdown_line(cells);
}

// The fields that identify a row, to find the same row in another run.
std::string key_of(const nlohmann::json& row) {
  std::string key;
  for (const char* name : {"model", "mixer", "test", "batch", "size", "threads", "precision"}) {
    const auto& value = row.at(name);
    key += (value.is_string() ? value.get<std::string>() : json_text(value)) + ", ";
  }
  const auto device = row.value("device", std::string("cpu"));  // older files do not contain it
  key += path_of(row.at("engine").get<bool>());
  return device == "cpu" ? key : cat(key, ", ", device);
}

BenchChange change_of(const nlohmann::json& before, const nlohmann::json& after) {
  BenchChange change;
  change.what = key_of(after);
  change.before_ms = before.at("median_ms").get<double>();
  change.after_ms = after.at("median_ms").get<double>();
  change.ratio = change.before_ms / change.after_ms;
  change.verdict = "no difference";
  if (after.at("high_ms").get<double>() < before.at("low_ms").get<double>()) {
    change.verdict = "faster";
  }
  if (after.at("low_ms").get<double>() > before.at("high_ms").get<double>()) {
    change.verdict = "slower";
  }
  return change;
}

}  // namespace

nlohmann::json model_bench_json(const std::vector<ModelBenchRow>& rows, const BenchOrigin& origin) {
  return json_table(rows, [&](const ModelBenchRow& row) {
    Json json = row_json(row, origin);
    json["times_ms"] = row.times_ms;
    return json;
  });
}

std::string model_bench_markdown(const std::vector<ModelBenchRow>& rows, const BenchOrigin& o) {
  std::string text =
      "| model | mixer | test | batch | size | threads | precision | path | ms [quartiles] | rate "
      "| of floor | of read | peak memory | error |\n"
      "|---|---|---|--:|--:|--:|---|---|--:|--:|--:|--:|--:|--:|\n";
  for (const auto& row : rows) text += markdown_row(row);
  return text + "\n" + origin_line(o);
}

std::string model_work_markdown(const std::vector<ModelBenchRow>& rows) {
  std::vector<std::string> head{"model", "test", "batch", "size", "precision", "ms"};
  for (int k = 0; k < kernels::kWorkKinds; ++k) {
    head.emplace_back(kernels::work_name(static_cast<kernels::Work>(k)));
  }
  head.emplace_back("rest");
  std::string text;
  for (const auto& r : rows) {
    if (r.work_total_ms <= 0) continue;
    std::vector<std::string> cells{r.model,
                                   r.test,
                                   std::to_string(r.batch),
                                   std::to_string(r.size),
                                   name_of(r.precision),
                                   three_digits(r.work_total_ms)};
    for (const double ms : r.work_ms) cells.push_back(share(ms, r.work_total_ms));
    cells.push_back(share(r.work_rest_ms(), r.work_total_ms));
    text += markdown_line(cells);
  }
  if (text.empty()) return "";
  return cat(markdown_line(head), "|---|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n", text);
}

std::vector<BenchChange> compare_model_bench(const nlohmann::json& before,
                                             const nlohmann::json& after,
                                             const std::string& where) {
  std::vector<BenchChange> changes;
  try {
    for (const auto& row : after.at("rows")) {
      for (const auto& old : before.at("rows")) {
        if (key_of(old) != key_of(row)) continue;
        if (old.at("median_ms").is_null() || row.at("median_ms").is_null()) continue;
        changes.push_back(change_of(old, row));
      }
    }
  } catch (const nlohmann::json::exception&) {
    fail_data("'", where, "' is not what `tost bench model --format json` writes.");
  }
  return changes;
}

std::string changes_markdown(const std::vector<BenchChange>& changes) {
  if (changes.empty()) return "No configuration was measured in both runs.\n";
  std::string text =
      "| configuration | before ms | now ms | times as fast | verdict |\n|---|--:|--:|--:|---|\n";
  for (const auto& c : changes) {
    text += markdown_line({c.what, three_digits(c.before_ms), three_digits(c.after_ms),
                           format_text("%.3f", c.ratio), c.verdict});
  }
  return text;
}

}  // namespace tost
