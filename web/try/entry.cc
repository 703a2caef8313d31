// What the page calls: tost.h with numbers that JavaScript has, and what a browser lacks.
#include <emscripten.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tost/base/error.h"
#include "tost/engine/tost.h"
#include "tost/io/image.h"
#include "tost/io/tokenizers.h"

extern "C" {

EMSCRIPTEN_KEEPALIVE tost_text* tost_begin_simple(tost_model* model, double temperature, double seed) {
  tost_sampling sampling{};
  sampling.temperature = temperature;
  sampling.seed = static_cast<unsigned long long>(seed);
  return tost_begin(model, &sampling);
}

EMSCRIPTEN_KEEPALIVE double tost_read_number(tost_text* text, const char* utf8, size_t bytes) {
  return static_cast<double>(tost_read(text, utf8, bytes));
}

EMSCRIPTEN_KEEPALIVE double tost_tokens_number(tost_text* text) {
  return static_cast<double>(tost_tokens(text));
}

EMSCRIPTEN_KEEPALIVE double tost_state_bytes_number(tost_text* text) {
  return static_cast<double>(tost_state_bytes(text));
}

EMSCRIPTEN_KEEPALIVE int tost_predict_number(tost_model* model, const unsigned char* rgb, int width, int height, float* to,
                                             int most) {
  return static_cast<int>(tost_predict(model, rgb, width, height, to, most));
}

EMSCRIPTEN_KEEPALIVE double tost_memberships_number(tost_text* text, float* to, int most) {
  return static_cast<double>(tost_memberships(text, to, most));
}
}

namespace tost {

// The browser decodes pictures.
Image decode_jpeg(std::string_view, std::string_view name, const ImageLimits&) {
  fail_data(name, " is a JPEG file, which the page decodes itself.");
}
Image decode_png(std::string_view, std::string_view name, const ImageLimits&) {
  fail_data(name, " is a PNG file, which the page decodes itself.");
}
int64_t jpeg_work(std::string_view, std::string_view, const ImageLimits&) { return 0; }
int64_t png_work(std::string_view, std::string_view, const ImageLimits&) { return 0; }

// PCRE2, which GPT-2's splitting needs, is left out.
std::shared_ptr<const Tokenizer> bpe_tokenizer_from_json(const nlohmann::json&, const std::string& where) {
  fail_data(where, " is GPT-2's, which this page lacks; use a model of words, characters or bytes.");
}

}  // namespace tost
