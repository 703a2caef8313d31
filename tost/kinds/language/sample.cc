#include "tost/kinds/language/sample.h"

#include "tost/base/error.h"
#include "tost/base/random.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/language/generate.h"

namespace tost {
namespace {

// Bytes that are not UTF-8 replaced, so that the text can be shown and logged.
std::string valid_utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json_text(json(text)));
}

}  // namespace

std::string sample_text(LanguageModel& model, const Tokenizer& tokenizer,
                        const SampleRequest& request) {
  const std::vector<int32_t> prompt = tokenizer.encode(request.prompt);
  GenerateConfig config;
  config.sampling.temperature = request.temperature;
  config.max_tokens = request.tokens;
  config.ignore_end = true;
  config.past_block = "slide";
  config.seed = Random(request.seed, request.stream).next();
  const auto result = generate(model, tokenizer, {{prompt.begin(), prompt.end()}}, config);
  return valid_utf8(tokenizer.decode(prompt)) + result.texts[0].text;
}

void check_sample(const LanguageInfo& info, const LanguageTrainConfig& config) {
  if (info.tokenizer == nullptr) {
    fail_usage("'", config.data,
               "' comes without a tokenizer, so samples cannot be written; set tokenizer, or "
               "sample_every_steps to 0.");
  }
  try {
    if (!info.tokenizer->encode(config.sample_prompt).empty()) return;
  } catch (const Error& error) {
    fail_usage("sample_prompt cannot be used: ", error.what());
  }
  fail_usage("sample_prompt is empty; give at least one token, or set sample_every_steps to 0.");
}

}  // namespace tost
