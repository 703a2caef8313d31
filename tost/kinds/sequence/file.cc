#include "tost/kinds/sequence/file.h"

#include "tost/base/error.h"
#include "tost/engine/metadata.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kSequence[] = "sequence";

json coding_json(const SequenceInfo& info) {
  json coding = TOST_MEMBERS(info.coding, kind, vocab, pairs);
  coding["max_length"] = info.cut;
  return coding;
}

int64_t integer_of(const json& object, const char* key) {
  return json_integer(object[key], cat(key, " of its coding"));
}

void read_coding(const json& object, SequenceInfo& info) {
  expect_keys(object, {"kind", "vocab", "pairs", "max_length"}, "its coding");
  object["kind"].get_to(info.coding.kind);
  info.coding.vocab = integer_of(object, "vocab");
  object["pairs"].get_to(info.coding.pairs);
  info.cut = integer_of(object, "max_length");
  if (info.cut < 0) fail_data("max_length ", info.cut, " of its coding is negative.");
  if (info.coding.vocab < 2 || info.coding.vocab > info.config.vocab) {
    fail_data("a coding of ", info.coding.vocab, " tokens for a model of ", info.config.vocab, ".");
  }
  if (info.coding.pairs != info.config.pairs) {
    fail_data("its coding is of ", info.coding.pairs ? "pairs" : "single sequences",
              " and its model is not.");
  }
}

}  // namespace

json to_json(const SequenceInfo& info) {
  return {{"kind", kSequence},
          {"config", to_json(info.config)},
          {"coding", coding_json(info)},
          {"classes", info.classes},
          {"training", info.training}};
}

SequenceInfo sequence_info_from_json(const json& object, const std::string& where) {
  expect_keys(object, {"kind", "config", "coding", "classes", "training"}, where);
  return read_from(where, [&] {
    if (object["kind"] != kSequence) fail_data("its kind is ", json_text(object["kind"]), ".");
    SequenceInfo info;
    info.config = sequence_config_from_json(object["config"]);
    validate(info.config);
    read_coding(object["coding"], info);
    object["classes"].get_to(info.classes);
    if (int64_t(info.classes.size()) != info.config.classes) {
      fail_data(info.classes.size(), " class names for a model of ", info.config.classes,
                " classes.");
    }
    info.training = object["training"];
    return info;
  });
}

static SequenceInfo sequence_info_of(const std::map<std::string, std::string>& metadata,
                                     const std::string& where) {
  json object = stored_description(metadata, {"config", "coding", "classes", "training"}, where);
  object["kind"] = kSequence;
  return sequence_info_from_json(object, where);
}

std::map<std::string, std::string> to_metadata(const SequenceInfo& info) {
  return described_metadata(kSequence, to_json(info));
}

LoadedSequence load_sequence_file(const fs::path& path, Weights weights) {
  const fs::path file = find_intact_model_file(path, weights);
  const std::string kind = model_kind(file, weights);
  if (kind != kSequence) {
    fail_data("'", file.string(), "' holds a ", kind, " model, not a sequence model.");
  }
  return load_described(file, sequence_info_of, make_sequence_classifier);
}

void check_sequence_data(const SequenceInfo& info, const SequenceDataset& dataset,
                         const std::string& data) {
  const SequenceCoding coding = dataset.coding();
  const auto describe = [](const SequenceCoding& c) {
    return cat(c.pairs ? "pairs of " : "", c.kind, " (", c.vocab, " ids)");
  };
  if (coding != info.coding) {
    fail_usage("'", data, "' holds ", describe(coding), " but the model reads ",
               describe(info.coding), "; give data of the model's kind.");
  }
  check_classes(dataset.classes(), info.classes, data);
}

}  // namespace tost
