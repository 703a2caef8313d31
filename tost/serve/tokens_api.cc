// /tokenize, /detokenize and /v1/embeddings.
#include <cstring>

#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/serve/text_api.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr int64_t kMaxEmbedded = 8192;  // tokens of a text

void tokenize(const Call& call) {
  Fields fields(call.request().body);
  const auto& model = call.app.language(fields.text("model", {}));
  const auto text = fields.needed_text(fields.has("content") ? "content" : "prompt");
  fields.finish();
  const auto ids = encode_text(model, text);
  call.answer({{"tokens", ids}, {"count", ids.size()}});
}

void detokenize(const Call& call) {
  Fields fields(call.request().body);
  const auto& model = call.app.language(fields.text("model", {}));
  const auto prompts = prompts_of(fields.take("tokens"), model, "tokens");
  fields.finish();
  std::string text;
  for (const auto& ids : prompts) {
    for (const int32_t id : ids) text += tokenizer_of(model).piece(id);
  }
  call.answer({{"prompt", text}});
}

std::string base64_of(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return to_base64(bytes);
}

void embed(const Call& call) {
  Fields fields(call.request().body);
  const auto& model = call.app.language(fields.text("model", {}));
  auto prompts = prompts_of(fields.take("input"), model, "input");
  const auto encoding = fields.text("encoding_format", "float");
  fields.neutral("dimensions", {model.language->info().config.dim});
  fields.ignore("user");
  fields.finish();
  if (encoding != "float" && encoding != "base64") {
    throw ApiError(400, "'encoding_format' is float or base64.", "encoding_format");
  }
  const int64_t most = std::min(kMaxEmbedded, model.language->most_tokens());
  for (const auto& ids : prompts) {
    if (ids.empty() || int64_t(ids.size()) > most) {
      throw ApiError(
          400, cat("A text of 'input' has ", ids.size(), " tokens; 1 to ", most, " are expected."),
          "input");
    }
  }
  if (prompts.empty()) throw ApiError(400, "'input' is empty.", "input");
  // Reads a text piece by piece between steps, so that running texts are not blocked.
  struct Task {
    Call call;
    const ServedModel& model;
    std::vector<LanguageService::Embedding> texts;
    bool base64;
    size_t next = 0;

    static void run(const std::shared_ptr<Task>& task) {
      run_on(*task->model.language, task->call, [task] {
        auto& text = task->texts[task->next];
        task->model.language->embed(text);
        task->next += !text.direction.empty();
        task->next < task->texts.size() ? run(task) : task->answer();
      });
    }
    void answer() const {
      json data = json::array();
      int64_t tokens = 0;
      for (const auto& text : texts) {
        tokens += int64_t(text.ids->size());
        data.push_back(
            {{"object", "embedding"},
             {"index", data.size()},
             {"embedding", base64 ? json(base64_of(text.direction)) : json(text.direction)}});
      }
      call.exchange->record(model.id, tokens);
      call.answer({{"object", "list"},
                   {"data", data},
                   {"model", model.id},
                   {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
    }
  };
  std::vector<LanguageService::Embedding> texts;
  for (auto& ids : prompts) texts.push_back({.ids = model.language->prompt(std::move(ids))});
  Task::run(std::make_shared<Task>(Task{call, model, std::move(texts), encoding == "base64"}));
}

}  // namespace

Routes token_routes() {
  return {{"POST", "/v1/embeddings", embed},
          {"POST", "/tokenize", tokenize},
          {"POST", "/detokenize", detokenize}};
}

}  // namespace tost
