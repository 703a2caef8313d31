#include "tost/study/sweep_spec.h"

#include <algorithm>
#include <set>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/data/corrupt.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMostSpecNesting = 16;
constexpr size_t kMostEntries = 1000;  // of any list

// One object of the file: its keys are those asked for and no others.
class Reader {
 public:
  Reader(const ordered_json& object, std::string where, std::vector<std::string> keys)
      : object_(object), where_(std::move(where)) {
    if (!object.is_object()) fail_usage(where_, " must be an object, found ", shown(object), ".");
    for (const auto& [key, value] : object.items()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      fail_usage(where_, " has an unknown key '", key, "' (known: ", join(keys, ", "), ").",
                 did_you_mean(key, keys));
    }
  }

  const ordered_json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  std::string text(const char* key, std::string usual = "") const {
    const ordered_json* value = find(key);
    if (value == nullptr) return usual;
    if (!value->is_string()) fail(key, "a text", *value);
    return value->get<std::string>();
  }

  json object(const char* key) const {
    const ordered_json* value = find(key);
    if (value == nullptr) return json::object();
    if (!value->is_object()) fail(key, "an object", *value);
    return json::parse(json_text(*value));
  }

  const ordered_json& list(const char* key) const {
    static const ordered_json none = ordered_json::array();
    const ordered_json* value = find(key);
    if (value == nullptr) return none;
    if (!value->is_array() || value->empty()) fail(key, "a list with at least one entry", *value);
    if (value->size() > kMostEntries) {
      fail_usage(where_, ": '", key, "' has ", value->size(), " entries; at most ", kMostEntries,
                 " are possible.");
    }
    return *value;
  }

  std::vector<int64_t> integers(const char* key, int64_t low, int64_t high) const {
    std::vector<int64_t> numbers;
    for (const ordered_json& value : list(key)) {
      const std::string wanted = cat("a list of different integers from ", low, " to ", high);
      if (!value.is_number_integer()) fail(key, wanted, value);
      // As a double first: unsigned values beyond int64 would turn negative.
      const double number = value.get<double>();
      if (!(number >= double(low) && number <= double(high))) fail(key, wanted, value);
      numbers.push_back(value.get<int64_t>());
    }
    check_distinct(key, numbers);
    return numbers;
  }

  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> words;
    for (const ordered_json& value : list(key)) {
      if (!value.is_string()) fail(key, "a list of texts", value);
      words.push_back(value.get<std::string>());
    }
    check_distinct(key, words);
    return words;
  }

  const std::string& where() const { return where_; }

  [[noreturn]] void fail(const char* key, const std::string& wanted,
                         const ordered_json& found) const {
    fail_usage(where_, ": '", key, "' must be ", wanted, ", found ", shown(found), ".");
  }

 private:
  static std::string shown(const ordered_json& value) {
    const std::string text = json_text(value);
    return text.size() <= 60 ? text : text.substr(0, 57) + "...";
  }

  template <class T>
  void check_distinct(const char* key, const std::vector<T>& values) const {
    std::set<T> seen;
    for (const T& value : values) {
      if (!seen.insert(value).second)
        fail_usage(where_, ": '", key, "' names ", value, " twice; leave one out.");
    }
  }

  const ordered_json& object_;
  std::string where_;
};

SweepVariant read_variant(const ordered_json& value, const std::string& where) {
  const Reader reader(value, where, {"name", "settings", "pretrain"});
  SweepVariant variant;
  variant.name = reader.text("name");
  if (!is_variant_name(variant.name)) {
    fail_usage(
        where, ": '", variant.name,
        "' cannot be a variant's name; letters, digits and . _ - + can, at most 80 of them, ",
        "beginning with a letter or digit.");
  }
  variant.settings = reader.object("settings");
  if (const ordered_json* pretrain = reader.find("pretrain")) {
    if (*pretrain != false) reader.fail("pretrain", "false, or left out", *pretrain);
    variant.pretrained = false;
  }
  return variant;
}

std::vector<SweepVariant> read_variants(const Reader& reader) {
  std::vector<SweepVariant> variants;
  std::set<std::string> names;
  for (const ordered_json& value : reader.list("variants")) {
    variants.push_back(read_variant(value, cat(reader.where(), ", variant ", variants.size() + 1)));
    if (names.insert(variants.back().name).second) continue;
    fail_usage(reader.where(), " has two variants named '", variants.back().name,
               "'; give each a name of its own.");
  }
  return variants;
}

std::vector<GridAxis> read_grid(const Reader& reader) {
  std::vector<GridAxis> grid;
  const ordered_json* axes = reader.find("grid");
  if (axes == nullptr) return grid;
  if (!axes->is_object() || axes->empty())
    reader.fail("grid", "an object of at least one list", *axes);
  for (const auto& [key, values] : axes->items()) {
    if (!values.is_array() || values.empty() || values.size() > kMostEntries) {
      reader.fail("grid",
                  cat("an object of lists of 1 to ", kMostEntries, " values, and that of '", key,
                      "' is not"),
                  values);
    }
    GridAxis axis{key, {}};
    for (const ordered_json& value : values) axis.values.push_back(json::parse(json_text(value)));
    grid.push_back(std::move(axis));
  }
  return grid;
}

std::string read_split(const Reader& reader, std::string usual) {
  const std::string split = reader.text("split", std::move(usual));
  if (split.empty() || split == "test" || split == "validation") return split;
  fail_usage(reader.where(), ": split is '", split, "' but must be test or validation.");
}

SweepCorruptions read_corruptions(const ordered_json& value, const std::string& where) {
  const Reader reader(value, where, {"kinds", "strengths", "split"});
  SweepCorruptions corruptions{reader.texts("kinds"),
                               reader.integers("strengths", 1, kCorruptionStrengths),
                               read_split(reader, "test")};
  if (corruptions.kinds.empty()) corruptions.kinds = corruption_kinds();
  for (const std::string& kind : corruptions.kinds) check_corruption({kind, 1});
  for (int64_t s = 1; reader.find("strengths") == nullptr && s <= kCorruptionStrengths; ++s) {
    corruptions.strengths.push_back(s);
  }
  return corruptions;
}

SweepPlot read_plot(const Reader& reader, bool corrupted) {
  const std::string plot = reader.text("plot", corrupted ? "lines" : "dots");
  if (plot == "dots") return SweepPlot::kDots;
  if (plot == "curve") return SweepPlot::kCurve;
  if (plot != "lines") {
    fail_usage(reader.where(), ": plot is '", plot, "' but must be dots, curve or lines.",
               did_you_mean(plot, {"dots", "curve", "lines"}));
  }
  if (!corrupted) fail_usage(reader.where(), ": plot \"lines\" needs corruptions; add them.");
  return SweepPlot::kLines;
}

ordered_json parse_file(const std::filesystem::path& path) {
  const std::string where = cat("'", path.string(), "'");
  ordered_json value = parse_ordered_json(
      read_file(path, int64_t{1} << 20), where,
      {.nesting = kMostSpecNesting, .unique_keys = true, .error = ErrorKind::kUsage});
  if (!value.is_object()) fail_usage(where, " is not a JSON object; a sweep file is one.");
  return value;
}

}  // namespace

bool is_variant_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (name.empty() || name.size() > 80 || !plain(name.front())) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return plain(c) || c == '.' || c == '_' || c == '-' || c == '+';
  });
}

SweepSpec sweep_spec_from_json(const ordered_json& object, const std::string& where) {
  const Reader reader(object, where,
                      {"title", "note", "settings", "variants", "grid", "seeds", "pretrain",
                       "corruptions", "score", "plot"});
  SweepSpec spec;
  spec.title = reader.text("title");
  spec.note = reader.text("note");
  spec.settings = reader.object("settings");
  spec.variants = read_variants(reader);
  spec.grid = read_grid(reader);
  if (spec.variants.empty() && spec.grid.empty()) {
    fail_usage(where, " compares nothing; add variants or a grid.");
  }
  spec.seeds = reader.integers("seeds", 0, int64_t{1} << 40);
  if (spec.seeds.empty()) fail_usage(where, " has no seeds; add \"seeds\": [0, 1, 2].");
  if (reader.find("pretrain") != nullptr) spec.pretrain = reader.object("pretrain");
  if (const ordered_json* corruptions = reader.find("corruptions")) {
    spec.corruptions = read_corruptions(*corruptions, where + ", corruptions");
  }
  if (const ordered_json* score = reader.find("score")) {
    spec.split = read_split(Reader(*score, where + ", score", {"split"}), "");
  }
  spec.plot = read_plot(reader, spec.corruptions.has_value());
  return spec;
}

SweepSpec read_sweep_file(const std::filesystem::path& path) {
  SweepSpec spec = sweep_spec_from_json(parse_file(path), cat("'", path.string(), "'"));
  if (spec.title.empty()) spec.title = path.stem().string();
  return spec;
}

}  // namespace tost
