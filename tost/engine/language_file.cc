#include "tost/engine/language_file.h"

#include "tost/base/error.h"
#include "tost/engine/metadata.h"
#include "tost/io/parse_json.h"

namespace tost {

using nlohmann::json;

json to_json(const LanguageInfo& info) {
  return {{"kind", kLanguageKind},
          {"config", to_json(info.config)},
          {"tokenizer", info.tokenizer != nullptr ? info.tokenizer->to_json() : json()},
          {"training", info.training}};
}

LanguageInfo language_info_from_json(const json& object, const std::string& where) {
  expect_keys(object, {"kind", "config", "tokenizer", "training"}, where);
  return read_from(where, [&] {
    if (object["kind"] != kLanguageKind) fail_data("its kind is ", json_text(object["kind"]), ".");
    LanguageInfo info;
    info.config = language_config_from_json(object["config"]);
    check_language_config(info.config);
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
  return described_metadata(kLanguageKind, to_json(info));
}

LanguageInfo language_info_of(const std::map<std::string, std::string>& metadata,
                              const std::string& where) {
  const std::string kind = stored_kind(metadata, where);
  if (kind != kLanguageKind) fail_data(where, " holds a ", kind, " model, not a language model.");
  json object = stored_description(metadata, {"config", "tokenizer", "training"}, where);
  object["kind"] = kind;
  return language_info_from_json(object, where);
}

const Tokenizer& needed_tokenizer(const LanguageInfo& info, const std::string& undone) {
  if (info.tokenizer != nullptr) return *info.tokenizer;
  fail_data("The model has no tokenizer, so that ", undone,
            "; name the one it was trained with by --tokenizer, as gpt2:FOLDER for GPT-2's, or "
            "give token files of its vocabulary.");
}

bool runs_in_engine(const std::filesystem::path& file) {
  const json object = config_in_header(file, kLanguageKind);
  if (object.is_null()) return false;
  const auto config = language_config_from_json(object);
  return !config.auto_encoder && engine_has(config);
}

OpenedLanguage open_engine_language(const std::filesystem::path& file, const std::string& precision,
                                    Layout layout) {
  return engine_language_of(load_arrays(file), cat("'", file.string(), "'"), precision, layout);
}

OpenedLanguage engine_language_of(ArraysFile content, const std::string& where,
                                  const std::string& precision, Layout layout) {
  OpenedLanguage opened{.info = language_info_of(content.metadata, where)};
  check_predicts(opened.info.config, "the engine");
  const auto held = precision.empty() ? stored_precision(content.metadata, where)
                                      : precision_from_name(precision);
  WeightSource source(content.arrays, where);
  auto weights = std::make_unique<LanguageWeights>(opened.info.config, source, held);
  source.finish();
  opened.model =
      std::make_unique<EngineModel>(std::move(weights), held, layout, std::move(content.arrays));
  return opened;
}

}  // namespace tost
