// Language models as a row of the table of kinds.
#include "tost/kinds/kind.h"

#include "tost/base/error.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/language/answer_task.h"
#include "tost/kinds/language/bench.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/language/loss.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/language/task.h"
#include "tost/kinds/language/text.h"
#include "tost/nn/state_dict.h"
#include "tost/train/run_kind.h"

namespace tost {
namespace {

using nlohmann::json;

RunKind language_run_kind() {
  RunKind kind = make_run_kind<LanguageTask>("language", "language model", language_train_form(),
                                             language_preset_names(), language_info_from_json);
  kind.metric = "loss";
  return kind;
}

RunKind answer_run_kind() {
  RunKind kind = make_run_kind<AnswerTask>("task", "task model", answer_train_form(),
                                           recall_preset_names(), language_info_from_json);
  kind.files = "language";
  kind.metric = "accuracy";
  return kind;
}

OpenedModel open_language(const std::filesystem::path& path, Weights weights) {
  const auto loaded = load_language_file(path, weights);
  return {loaded.model, to_metadata(loaded.info), loaded.precision};
}

json score_language(const ScoreRequest& request) {
  const LoadedLanguage loaded = load_language_file(request.file, request.weights);
  read_by_engine(loaded.model, loaded.precision);
  const auto path = request.data.at("data").get<std::string>();
  const LanguageText text = load_language_text({path, request.split}, loaded.info);
  LanguageLossOptions options;
  options.stop = request.stop;
  options.progress = [&](int64_t done, int64_t total) {
    request.progress(done, total, "tokens scored");
  };
  const auto result = language_loss(*loaded.model, *text.tokens, text.bytes, options);
  if (!result) return {};
  return {{"precision", loaded.precision},
          {"loss", result->loss},
          {"bits_per_byte", result->bits_per_byte ? json(*result->bits_per_byte) : json()},
          {"tokens", result->tokens},
          {"seconds", result->seconds}};
}

json describe_language(const std::string& name) {
  const LanguageConfig config = language_preset(name);
  const auto model = make_language_model(config, WeightInit::kNone);
  json row = TOST_MEMBERS(config, mixer, block, positions, vocab, dim, depth, heads);
  row["name"] = name;
  row["parameters"] = parameter_count(*model);
  return row;
}

}  // namespace

Kind language_kind() {
  Kind kind;
  kind.name = "language";
  kind.label = "language";
  kind.runs = {language_run_kind(), answer_run_kind()};
  kind.table = {.key = "language_models",
                .title = "language model",
                .columns = {{"block", "block", 6},
                            {"vocab", "vocab", 7},
                            {"dim", "dim", 6},
                            {"depth", "depth", 6},
                            {"heads", "heads", 6},
                            {"parameters", "parameters", 14}},
                .note = "char, char_gpu and words take the vocabulary of their data.",
                .describe = describe_language};
  kind.decodes = true;
  kind.open = open_language;
  kind.score = score_language;
  kind.open_bench = open_bench_language;
  return kind;
}

}  // namespace tost
