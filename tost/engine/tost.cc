#include "tost/engine/tost.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/arrays_file.h"
#include "tost/engine/language_file.h"
#include "tost/engine/metadata.h"
#include "tost/engine/text_trace.h"
#include "tost/engine/text_writer.h"
#include "tost/engine/vision_file.h"
#include "tost/io/parse_json.h"

using namespace tost;

struct tost_model {
  OpenedLanguage language;  // its model is null for pictures
  OpenedVision vision;      // its engine is null for texts
  std::string about;
};

struct tost_text {
  tost_model* model;
  LanguageState state;
  TextWriter writer;
  Array logits = {};  // of the next token; undefined before the first
  std::vector<float> memberships = {};
  std::string piece = {};

  void read(const std::vector<int64_t>& ids) {
    if (ids.empty()) return;
    auto& engine = *model->language.model;
    const auto before = int64_t(ids.size()) - 1;
    if (before > 0) engine.extend(ids.data(), 1, before, state);
    std::vector<TracedBlock> seen;
    logits = engine.extend(&ids.back(), 1, state, seen);
    memberships.assign(seen.size() * size_t(engine.config().heads), 0);
    for (size_t i = 0; i < memberships.size(); ++i) {
      const auto& heads = seen[i / size_t(engine.config().heads)].memberships;
      if (!heads.empty()) memberships[i] = float(heads[i % heads.size()].back());
    }
  }
};

namespace {

thread_local std::string last_error;

// `work` without its exceptions: `failed` where it throws.
template <class Work, class Result>
Result guarded(Result failed, const Work& work) {
  last_error.clear();
  try {
    return work();
  } catch (const std::bad_alloc&) {
    last_error = "There is not enough memory.";
  } catch (const std::exception& error) {
    last_error = error.what();
  }
  return failed;
}

tost_model* opened(ArraysFile content, const std::string& where) {
  auto model = std::make_unique<tost_model>();
  const std::string kind = stored_kind(content.metadata, where);
  nlohmann::json about{{"kind", kind}};
  if (kind == kLanguageKind) {
    model->language = engine_language_of(std::move(content), where);
    const auto& [engine, info] = model->language;
    needed_tokenizer(info, "it can neither read nor write text");
    about["config"] = to_json(info.config);
    about["precision"] = name_of(engine->precision());
    about["training"] = info.training;
  } else {
    model->vision = engine_vision_of(std::move(content), where, "");
    about.update(to_json(model->vision.info));
    about["precision"] = name_of(model->vision.precision);
  }
  model->about = json_text(about);
  return model.release();
}

GenerateConfig config_of(const tost_sampling* s) {
  GenerateConfig config;
  config.max_tokens = INT64_MAX;
  config.sampling.temperature = 0;
  if (s == nullptr) return config;
  config.sampling.temperature = s->temperature;
  config.sampling.top_k = s->top_k;
  if (s->top_p != 0) config.sampling.top_p = s->top_p;
  if (s->repetition_penalty != 0) config.sampling.repetition_penalty = s->repetition_penalty;
  if (s->most_tokens != 0) config.max_tokens = s->most_tokens;
  config.seed = s->seed;
  check_generate(config);
  return config;
}

}  // namespace

const char* tost_error(void) {
  return last_error.c_str();
}

tost_model* tost_open(const char* path) {
  return guarded<>((tost_model*)nullptr,
                   [&] { return opened(load_arrays(path), cat("'", path, "'")); });
}

tost_model* tost_open_bytes(const void* bytes, size_t count) {
  return guarded<>((tost_model*)nullptr, [&] {
    auto copy = std::make_shared<std::string>(static_cast<const char*>(bytes), count);
    return opened(parse_arrays(std::move(copy), "the file"), "The file");
  });
}

const char* tost_about(tost_model* model) {
  return model->about.c_str();
}

void tost_close(tost_model* model) {
  delete model;
}

tost_text* tost_begin(tost_model* model, const tost_sampling* sampling) {
  return guarded<>((tost_text*)nullptr, [&] {
    if (model->language.model == nullptr) fail_usage("A model of pictures writes no text.");
    const auto& info = model->language.info;
    return new tost_text{
        model, {}, TextWriter(*info.tokenizer, info.config.vocab, config_of(sampling), 0, {})};
  });
}

tost_text* tost_copy(const tost_text* text) {
  return guarded<>((tost_text*)nullptr, [&] {
    return new tost_text{text->model, copy_of(text->state), text->writer, text->logits,
                         text->memberships};
  });
}

void tost_end(tost_text* text) {
  delete text;
}

long long tost_read(tost_text* text, const char* utf8, size_t bytes) {
  return guarded<>(-1LL, [&] {
    const auto ids = text->model->language.info.tokenizer->encode(std::string_view(utf8, bytes));
    text->writer.note(ids);
    text->read({ids.begin(), ids.end()});
    return static_cast<long long>(ids.size());
  });
}

const char* tost_write(tost_text* text) {
  return guarded<>((const char*)nullptr, [&]() -> const char* {
    if (!text->logits.defined()) fail_usage("Nothing was read yet; give the text a beginning.");
    if (!text->writer.ended().empty()) return nullptr;
    const int64_t id = text->writer.draw(text->logits.data());
    text->piece = text->writer.text();
    if (text->writer.ended() == "end") return nullptr;
    text->read({id});
    return text->piece.c_str();
  });
}

long long tost_tokens(const tost_text* text) {
  return text->state.position;
}

long long tost_state_bytes(const tost_text* text) {
  return state_bytes(text->state);
}

long long tost_memberships(const tost_text* text, float* to, long long most) {
  const auto& all = text->memberships;
  std::copy_n(all.begin(), std::min<size_t>(all.size(), size_t(std::max(0LL, most))), to);
  return static_cast<long long>(all.size());
}

long long tost_predict(tost_model* model, const unsigned char* rgb, long long width,
                       long long height, float* to, long long most) {
  return guarded<>(-1LL, [&] {
    const OpenedVision& vision = model->vision;
    if (vision.engine == nullptr) fail_usage("A model of texts labels no pictures.");
    if (width < 1 || height < 1) fail_usage("The picture of ", width, " x ", height, " is empty.");
    Image picture(width, height, 3);
    std::copy_n(rgb, picture.pixels.size(), picture.pixels.begin());
    const auto shares = classify_pictures(vision.info, {fit_image(picture, vision.info.preprocess)},
                                          [&](const float* images, int64_t count, float* logits) {
                                            vision.logits(images, count, logits);
                                          })[0];
    std::copy_n(shares.begin(), std::min<size_t>(shares.size(), size_t(std::max(0LL, most))), to);
    return static_cast<long long>(shares.size());
  });
}
