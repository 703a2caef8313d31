// /v1/classify and /v1/explain: what a model sees in pictures, and what it does to a text.
#include "tost/data/preprocess.h"
#include "tost/explain/numbers.h"
#include "tost/io/base64.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/language/explain_trace.h"
#include "tost/kinds/vision/explain_json.h"
#include "tost/kinds/vision/explain_picture_maps.h"
#include "tost/serve/page.h"
#include "tost/serve/text_api.h"

namespace tost {
namespace {

using nlohmann::json;

// A picture of a few bytes may claim a size that takes gigabytes to decode.
constexpr ImageLimits kPictureLimits{
    .max_side = 16'384, .max_pixels = 40'000'000, .max_file_bytes = 64 << 20};
constexpr size_t kMostPictures = 64;
constexpr int64_t kMostExplained = 512;  // tokens

// A picture in the body itself, or pictures in JSON as base64, with or without "data:…;base64,".
struct PictureRequest {
  std::string model;
  std::vector<std::string> files;
  int64_t top = 5;
};

std::string decoded(const json& value) {
  if (!value.is_string()) throw ApiError(400, "An image is a text in base64.", "images");
  const auto& text = value.get_ref<const std::string&>();
  size_t begin = 0;
  if (starts_with(text, "data:")) {
    const size_t comma = text.find(";base64,");
    if (comma == std::string::npos) {
      throw ApiError(400, "An image is a data URL without ';base64,'.", "images");
    }
    begin = comma + 8;
  }
  auto bytes = from_base64(std::string_view(text).substr(begin));
  if (!bytes) throw ApiError(400, "An image is not well-formed base64.", "images");
  return std::move(*bytes);
}

PictureRequest picture_request(const Call& call, const char* field) {
  const auto& request = call.request();
  PictureRequest result;
  if (starts_with(request.content_type, "image/")) {
    result.model = call.parameter("model");
    result.files.push_back(request.body);
    return result;
  }
  Fields fields(request.body);
  result.model = fields.text("model", {});
  result.top = fields.count("top_k", 5, 1, 1 << 20);
  const auto& value = fields.take(field);
  fields.finish();
  const json list = value.is_array() ? value : json::array({value});
  if (value.is_null() || list.empty() || list.size() > kMostPictures) {
    throw ApiError(
        400, cat("'", field, "' is a picture in base64 or a list of 1 to ", kMostPictures, "."),
        field);
  }
  for (const auto& item : list) result.files.push_back(decoded(item));
  return result;
}

std::vector<Image> decode_pictures(const PictureRequest& request) {
  std::vector<Image> images;
  for (size_t i = 0; i < request.files.size(); ++i) {
    images.push_back(decode_image(request.files[i], cat("Image ", i + 1), kPictureLimits));
  }
  return images;
}

void classify(const Call& call) {
  const auto request = picture_request(call, "images");
  const auto& model = call.app.pictures(request.model);
  const auto& info = model.pictures->loaded().info;
  std::vector<Image> seen;
  for (const auto& image : decode_pictures(request)) {
    seen.push_back(fit_image(image, info.preprocess));
  }
  run_on(*model.pictures, call, [call, &model, seen, top = request.top](PictureService& service) {
    const auto& classes = service.loaded().info.classes;
    const auto probabilities = service.probabilities(seen);
    json data = json::array();
    for (size_t i = 0; i < seen.size(); ++i) {
      json ranked = json::array();
      for (const auto& c : rank_classes(probabilities[int64_t(i)], classes, top)) {
        ranked.push_back(to_json(c));
      }
      data.push_back({{"index", i}, {"top", ranked}});
    }
    call.answer({{"object", "list"}, {"model", model.id}, {"data", data}});
  });
}

void explain_picture(const Call& call, const PictureRequest& request) {
  const auto& model = call.app.pictures(request.model);
  auto images = decode_pictures(request);
  if (images.size() != 1) throw ApiError(400, "One picture is explained at a time.", "image");
  run_on(
      *model.pictures, call, [call, &model, image = std::move(images[0])](PictureService& service) {
        const auto& loaded = service.loaded();
        auto maps =
            picture_maps(*loaded.model, loaded.info, picture_input(image, loaded.info.preprocess));
        auto answer = to_json(maps);
        answer["model"] = model.id;
        call.answer(answer);
      });
}

json trace_json(const ServedModel& model, const std::vector<int32_t>& ids, const TextTrace& trace) {
  json tokens = json::array(), layers = json::array();
  for (const auto id : ids) tokens.push_back(tokenizer_of(model).piece(int32_t(id)));
  for (const auto& layer : trace.layers) {
    const auto of_text = [](const torch::Tensor& x) {
      return x.defined() ? rounded(x[0], 4) : json();
    };
    layers.push_back(
        {{"mixer", layer.mixer},
         {"memberships", of_text(layer.pi)},
         {"entropy", of_text(layer.entropy)},
         {"group_means", layer.mean_norm.defined() ? json{{"norm", of_text(layer.mean_norm)},
                                                          {"cosine", of_text(layer.mean_cosine)}}
                                                   : json()},
         {"effect", of_text(layer.effect)}});
  }
  return {{"model", model.id},
          {"tokens", tokens},
          {"surprisal", ids.size() > 1 ? rounded(trace.loss[0], 4) : json::array()},
          {"layers", layers}};
}

void explain_words(const Call& call) {
  Fields fields(call.request().body);
  const auto& model = call.app.language(fields.text("model", {}));
  const auto ids = encode_text(model, fields.needed_text("text"));
  fields.finish();
  const auto most = std::min(kMostExplained, model.language->most_tokens());
  if (ids.empty() || int64_t(ids.size()) > most) {
    throw ApiError(400, cat("'text' has ", ids.size(), " tokens; 1 to ", most, " are expected."),
                   "text");
  }
  run_on(*model.language, call, [call, &model, ids](LanguageModel& network) {
    const auto batch = torch::tensor(ids, torch::kLong).unsqueeze(0);
    call.answer(trace_json(model, ids, trace_text(network, batch)));
  });
}

void explain(const Call& call) {
  const auto& request = call.request();
  const bool picture =
      starts_with(request.content_type, "image/") || Fields(request.body).has("image");
  picture ? explain_picture(call, picture_request(call, "image")) : explain_words(call);
}

void page(const Call& call) {
  call.exchange->answer(start_page());
}

}  // namespace

const std::vector<Route>& picture_routes() {
  static const std::vector<Route> routes{{"POST", "/v1/classify", classify, {"model"}},
                                         {"POST", "/v1/explain", explain, {"model"}},
                                         {"GET", "/", page, {}, true}};
  return routes;
}

}  // namespace tost
