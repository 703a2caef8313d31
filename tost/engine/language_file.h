// A trained language model in one safetensors file: weights, architecture and tokenizer.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tost/engine/arrays_file.h"
#include "tost/engine/language_engine.h"
#include "tost/io/tokenizer.h"

namespace tost {

inline constexpr char kLanguageKind[] = "language";

struct LanguageInfo {
  LanguageConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;          // null: token ids without a text form
  nlohmann::json training = nlohmann::json::object();  // facts about its training, free in form
};

nlohmann::json to_json(const LanguageInfo& info);
// Throws a data Error naming `where` for unknown or missing keys, wrong types, impossible values,
// and a tokenizer with more tokens than the model.
LanguageInfo language_info_from_json(const nlohmann::json& json, const std::string& where);

// The metadata of a safetensors file: "tost.kind": "language", "tost.config", "tost.tokenizer" and
// "tost.training" (JSON texts), and "format": "pt".
std::map<std::string, std::string> to_metadata(const LanguageInfo& info);
// The inverse. Throws the Errors of language_info_from_json(), and a data Error for a model of
// another kind.
LanguageInfo language_info_of(const std::map<std::string, std::string>& metadata,
                              const std::string& where);

// The model's tokenizer. Throws a data Error if the model has no tokenizer; `undone` says what
// fails ("no passage can be read").
const Tokenizer& needed_tokenizer(const LanguageInfo& info, const std::string& undone);

// Whether a file, by its header, is a language model of this program whose mixers the engine
// supports. Returns false for files of other programs.
bool runs_in_engine(const std::filesystem::path& file);

struct OpenedLanguage {
  std::unique_ptr<EngineModel> model;
  LanguageInfo info;
};

// Opens a model file of this program for the engine; `precision` "" is that of the file. Throws a
// data Error naming the file if it is no language model, or has a mixer that the engine lacks.
OpenedLanguage open_engine_language(const std::filesystem::path& file,
                                    const std::string& precision = "",
                                    Layout layout = Layout::kPassing);

// Opens a model from a file's content; `where` names the file in messages.
OpenedLanguage engine_language_of(ArraysFile content, const std::string& where,
                                  const std::string& precision = "",
                                  Layout layout = Layout::kPassing);

}  // namespace tost
