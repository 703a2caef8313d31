// /v1/classify and /v1/explain: classes of pictures, and explanations of pictures and texts.
#include "tost/engine/text_trace.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/serve/text_api.h"

namespace tost {
namespace {

using nlohmann::json;

// Limits the size of a picture, because a file of a few bytes can claim gigabytes.
constexpr ImageLimits kPictureLimits{
    .max_side = 16'384, .max_pixels = 40'000'000, .max_file_bytes = 64 << 20};
constexpr size_t kMaxPictures = 64;
// The largest number of pixels to decode for a request, and the bytes of one decoded pixel.
constexpr int64_t kMaxWork = 400'000'000, kSeenWork = 4;
constexpr int64_t kMaxExplained = 512;  // tokens

// The pictures of a request, and the memory reserved for them until the answer.
struct Pictures {
  const ServedModel& model;
  int64_t top = 5;
  std::vector<std::string> files = {};
  std::vector<std::shared_ptr<void>> shares = {};
};
using PicturesPtr = std::shared_ptr<Pictures>;

std::string file_of(const json& value, const char* field) {
  if (!value.is_string()) throw ApiError(400, "An image is a text in base64.", field);
  const auto& text = value.get_ref<const std::string&>();
  size_t begin = 0;
  if (starts_with(text, "data:")) {
    const size_t comma = text.find(";base64,");
    if (comma == std::string::npos) {
      throw ApiError(400, "An image is a data URL without ';base64,'.", field);
    }
    begin = comma + 8;
  }
  auto bytes = from_base64(std::string_view(text).substr(begin));
  if (!bytes) throw ApiError(400, "An image is not well-formed base64.", field);
  return std::move(*bytes);
}

bool is_picture(const HttpRequest& request) {
  return starts_with(request.content_type, "image/");
}

// Throws an ApiError for a picture that was sent as a form or without a content type.
void refuse_forms(const HttpRequest& request) {
  const bool form = starts_with(request.content_type, "multipart/");
  if (!form && (is_picture(request) || !looks_like_image(request.body))) return;
  throw ApiError(415, cat(form ? "The picture came in a form" : "The picture came without its type",
                          "; send its bytes as the body, with 'Content-Type: image/png' or "
                          "'image/jpeg', or in JSON as base64."));
}

// Returns the picture that is the body of the request.
PicturesPtr sent_picture(const Call& call) {
  return std::make_shared<Pictures>(Pictures{.model = call.app.pictures(call.parameter("model")),
                                             .files = {std::move(call.exchange->request.body)}});
}

// Reads one to `most` pictures in JSON as base64, with or without "data:…;base64,".
PicturesPtr listed_pictures(const Call& call, Fields& fields, const char* field, size_t most) {
  auto model = fields.text("model", call.parameter("model"));
  Pictures result{.model = call.app.pictures(model), .top = fields.count("top_k", 5, 1, 1 << 20)};
  const auto& value = fields.take(field);
  fields.finish();
  const size_t count = value.is_array() ? value.size() : value.is_null() ? 0 : 1;
  if (count == 0 || count > most) {
    throw ApiError(400,
                   cat("'", field, "' is a picture in base64",
                       most > 1 ? cat(" or a list of 1 to ", most) : std::string(), "."),
                   field);
  }
  for (size_t i = 0; i < count; ++i) {
    result.files.push_back(file_of(value.is_array() ? value[i] : value, field));
  }
  return std::make_shared<Pictures>(std::move(result));
}

// Reserves the pictures' part of the budgets. Decodes the pictures one by one on another thread and
// passes each to `take`. Finally runs `answer` on the model's thread.
void decode_pictures(const Call& call, const PicturesPtr& pictures,
                     std::function<void(const Image&)> take, std::function<void()> answer) {
  const int64_t side = pictures->model.pictures->model.info.preprocess.size;
  const auto& files = pictures->files;
  int64_t work = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    work += decoding_work(files[i], cat("Image ", i + 1), kPictureLimits);
  }
  if (work > kMaxWork) {
    throw ApiError(413, cat("The pictures have ", work, " pixels to decode, where each scan of a ",
                            "progressive JPEG counts; at most ", kMaxWork,
                            " are decoded for a request: send fewer or smaller ones."));
  }
  // The network's input stays in memory until it is read.
  work += kSeenWork * int64_t(files.size()) * side * side;
  const auto part = call.app.pixels.take(work);
  if (part == nullptr) {
    throw ApiError(503, "Too many pictures are being decoded; try again later.", {}, "queue_full");
  }
  pictures->shares = {part, call.request().body_share};
  const auto decode = [call, pictures, take = std::move(take), answer = std::move(answer)] {
    for (size_t i = 0; i < pictures->files.size(); ++i) {
      if (call.exchange->disconnected()) return;
      if (call.app.ended()) throw shutting_down();
      take(decode_image(std::exchange(pictures->files[i], {}), cat("Image ", i + 1),
                        kPictureLimits));
    }
    pictures->shares.pop_back();  // of the body
    run_on(*pictures->model.pictures, call, answer);
  };
  if (!call.app.decoders.run([call, decode] { call.attempt(decode); })) throw queue_full();
}

void classify(const Call& call) {
  refuse_forms(call.request());
  PicturesPtr pictures;
  if (is_picture(call.request())) {
    pictures = sent_picture(call);
  } else {
    Fields fields(call.request().body);
    pictures = listed_pictures(call, fields, "images", kMaxPictures);
  }
  const PictureModel& model = pictures->model.pictures->model;
  const auto seen = std::make_shared<std::vector<Image>>();
  const auto answer = [call, pictures, seen, &model] {
    const auto probabilities = classify_pictures(model.info, *seen, model.logits);
    json data = json::array();
    for (size_t i = 0; i < seen->size(); ++i) {
      const auto top = rank_classes(probabilities[i], model.info.classes, pictures->top);
      data.push_back({{"index", i}, {"top", top}});
    }
    call.exchange->record(pictures->model.id);
    call.answer({{"object", "list"}, {"model", pictures->model.id}, {"data", data}});
  };
  decode_pictures(
      call, pictures,
      [seen, &model](const Image& image) {
        seen->push_back(fit_image(image, model.info.preprocess));
      },
      answer);
}

void check_explains(const ServedModel& served, bool explains) {
  if (explains) return;
  throw ApiError(
      501,
      cat("Model '", served.id, "' is served without explanations; serve it without --no-explain."),
      "model");
}

void explain_picture(const Call& call, const PicturesPtr& pictures) {
  const PictureModel& model = pictures->model.pictures->model;
  check_explains(pictures->model, model.explain != nullptr);
  const auto input = std::make_shared<PictureInput>();
  const auto answer = [call, pictures, input, &model] {
    auto seen = to_json(model.explain(std::move(*input)));
    seen["model"] = pictures->model.id;
    call.exchange->record(pictures->model.id);
    call.answer(seen);
  };
  const auto take = [input, &model](const Image& image) {
    *input = picture_input(image, model.info.preprocess);
  };
  decode_pictures(call, pictures, take, answer);
}

void explain_words(const Call& call, Fields& fields) {
  const auto& model = call.app.language(fields.text("model", {}));
  check_explains(model, model.language->text().explains);
  const auto ids = encode_text(model, fields.needed_text("text"));
  fields.finish();
  const auto most = std::min(kMaxExplained, model.language->most_tokens());
  if (ids.empty() || int64_t(ids.size()) > most) {
    throw ApiError(400, cat("'text' has ", ids.size(), " tokens; 1 to ", most, " are expected."),
                   "text");
  }
  run_on(*model.language, call, [call, &model, ids] {
    call.exchange->record(model.id, int64_t(ids.size()));
    auto shown = to_json(model.language->text().model->trace({ids.begin(), ids.end()}));
    shown["model"] = model.id;
    shown["tokens"] = json::array();
    for (const auto id : ids) shown["tokens"].push_back(tokenizer_of(model).piece(id));
    call.answer(shown);
  });
}

void explain(const Call& call) {
  refuse_forms(call.request());
  if (is_picture(call.request())) return explain_picture(call, sent_picture(call));
  Fields fields(call.request().body);
  if (!fields.has("image")) return explain_words(call, fields);
  explain_picture(call, listed_pictures(call, fields, "image", 1));
}

}  // namespace

Routes picture_routes() {
  return {{"POST", "/v1/classify", classify, {"model"}},
          {"POST", "/v1/explain", explain, {"model"}}};
}

}  // namespace tost
