#include "tost/kinds/language/file.h"

#include "tost/base/error.h"
#include "tost/io/parse_json.h"
#include "tost/io/safetensors.h"
#include "tost/kinds/language/foreign.h"
#include "tost/nn/state_dict.h"
#include "tost/store/foreign_source.h"
#include "tost/store/metadata.h"
#include "tost/store/quantized_file.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kLanguage[] = "language";

}  // namespace

json to_json(const LanguageInfo& info) {
  return {{"kind", kLanguage},
          {"config", to_json(info.config)},
          {"tokenizer", info.tokenizer != nullptr ? info.tokenizer->to_json() : json()},
          {"training", info.training}};
}

LanguageInfo language_info_from_json(const json& object, const std::string& where) {
  expect_keys(object, {"kind", "config", "tokenizer", "training"}, where);
  return read_from(where, [&] {
    if (object["kind"] != kLanguage) fail_data("its kind is ", json_text(object["kind"]), ".");
    LanguageInfo info;
    info.config = language_config_from_json(object["config"]);
    validate(info.config);
    info.training = object["training"];
    if (object["tokenizer"].is_null()) return info;
    info.tokenizer = tokenizer_from_json(object["tokenizer"], "its tokenizer");
    if (info.tokenizer->vocab_size() > info.config.vocab) {
      fail_data("a tokenizer of ", info.tokenizer->vocab_size(), " tokens for a model of ",
                info.config.vocab, ".");
    }
    return info;
  });
}

std::map<std::string, std::string> to_metadata(const LanguageInfo& info) {
  return described_metadata(kLanguage, to_json(info));
}

LoadedLanguage load_language_file(const fs::path& path, Weights weights) {
  LoadedLanguage loaded;
  loaded.file = find_intact_model_file(path, weights);
  if (is_foreign_checkpoint(loaded.file)) return load_foreign_language(loaded.file, weights);
  const std::string where = cat("'", loaded.file.string(), "'");
  const SafetensorsFile content = load_safetensors(loaded.file);
  const std::string kind = stored_kind(content.metadata, where);
  if (kind != kLanguage) fail_data(where, " holds a ", kind, " model, not a language model.");
  json object = stored_description(content.metadata, {"config", "tokenizer", "training"}, where);
  object["kind"] = kind;
  loaded.info = language_info_from_json(object, where);
  loaded.model = make_language_model(loaded.info.config, WeightInit::kNone);
  take_described_weights(*loaded.model, content.tensors, where);
  loaded.precision = stored_precision(content.metadata, where);
  return loaded;
}

void save_language_file(const fs::path& file, const LanguageModel& model,
                        const LanguageInfo& info) {
  save_safetensors(file, state_dict(model), to_metadata(info));
}

}  // namespace tost
