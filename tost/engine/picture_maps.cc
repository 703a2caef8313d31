#include "tost/engine/picture_maps.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "tost/base/text.h"
#include "tost/engine/vision_file.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr int64_t kPictureSide = 384;

// Writes nine significant digits, which represent float32 exactly and keep the order of
// memberships.
json as_float32(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return number_or_null(std::strtod(buffer, nullptr));
}

// Makes a PNG of at most kPictureSide pixels a side, as a data URL.
std::string picture_url(const Image& image) {
  const int64_t longer = std::max(image.width, image.height);
  const auto side = [&](int64_t of) { return std::max<int64_t>(1, of * kPictureSide / longer); };
  return cat(
      "data:image/png;base64,",
      to_base64(encode_png(longer <= kPictureSide ? image
                                                  : resize(image, side(image.width),
                                                           side(image.height), Filter::kBicubic))));
}

// Writes values of patches as [rows][columns]; null for none.
template <class Written>
json as_grid(const std::vector<double>& values, const PictureMaps& maps, Written written) {
  json rows;
  const size_t patches = size_t(maps.rows * maps.columns);
  for (size_t i = values.size() - std::min(patches, values.size()); i < values.size(); ++i) {
    if (rows.empty() || int64_t(rows.back().size()) == maps.columns) rows.push_back(json::array());
    rows.back().push_back(written(values[i]));
  }
  return rows;
}

}  // namespace

PictureInput picture_input(const Image& image, const Preprocess& p) {
  PictureInput input{.width = image.width, .height = image.height, .seen = fit_image(image, p)};
  input.values = Array::empty({1, p.channels, p.size, p.size});
  Normalizer{p}(input.seen, input.values.mutable_data());
  return input;
}

PictureMaps picture_maps(PictureEngine& engine, const ModelInfo& info, PictureInput input) {
  PictureMaps maps{.input = std::move(input)};
  const Array& values = maps.input.values;
  std::vector<float> logits(info.classes.size());
  engine.trace(values.data(), values.size(2), values.size(3), logits.data(), maps);
  maps.top = rank_classes(softmax(logits.data(), int64_t(logits.size())), info.classes, 3);
  return maps;
}

double layer_compression(const Array& w, const Array& pi) {
  const int64_t tokens = w.size(0), heads = pi.size(0), width = w.size(1) / heads;
  double sum = 0;
  for (int64_t h = 0; h < heads; ++h) {
    const float* shares = pi.data() + h * tokens;
    const double count = std::accumulate(shares, shares + tokens, 0.0);
    std::vector<double> moments(static_cast<size_t>(width));
    for (int64_t t = 0; t < tokens; ++t) {
      const float* x = w.data() + (t * heads + h) * width;
      const double square = std::inner_product(x, x + width, x, 0.0);
      const double part = shares[t] / (square < 1e-24 ? 1 : square);
      for (size_t i = 0; i < moments.size(); ++i) moments[i] += part * x[i] * x[i];
    }
    const double scale = double(width) / kEpsilonSquared / (count > 0 ? count : 1);
    for (const double moment : moments) sum += count * std::log1p(scale * moment);
  }
  return sum / 2 / double(tokens);
}

json to_json(const PictureMaps& maps) {
  const auto decimals = [](double unit) {
    return [unit](double value) { return number_or_null(std::round(value * unit) / unit); };
  };
  const auto to_4 = decimals(1e4), to_6 = decimals(1e6);
  json layers = json::array(), blocks = json::array();
  for (const PictureLayer& layer : maps.layers) {
    json memberships, norms = json::array();
    const auto entropy = membership_entropy(layer.memberships);
    const double sum = std::accumulate(entropy.begin(), entropy.end(), 0.0);
    std::vector<double> likeliest(entropy.size(), 1);  // from 1
    for (size_t h = 0; h < layer.memberships.size(); ++h) {
      const auto& head = layer.memberships[h];
      memberships.push_back(as_grid(head, maps, as_float32));
      for (size_t t = 0; t < head.size(); ++t) {
        if (head[t] > layer.memberships[size_t(likeliest[t]) - 1][t]) likeliest[t] = double(h + 1);
      }
    }
    for (const double norm : layer.register_norms) norms.push_back(to_4(norm));
    layers.push_back({{"layer", layers.size() + 1},
                      {"memberships", memberships},
                      {"likeliest_head", as_grid(likeliest, maps, decimals(1))},
                      {"entropy", as_grid(entropy, maps, as_float32)},
                      {"entropy_mean", number_or_null(sum / double(entropy.size()))},
                      {"compression",
                       {{"before", number_or_null(layer.compression_before)},
                        {"after", number_or_null(layer.compression_after)}}},
                      {"norms", as_grid(layer.norms, maps, to_4)},
                      {"register_norms", norms}});
  }
  for (const auto& heads : maps.class_attention) {
    json attention = json::array(), itself = json::array();
    for (const auto& head : heads) {
      attention.push_back(as_grid(head, maps, to_6));
      itself.push_back(to_6(head[0]));
    }
    blocks.push_back(
        {{"block", blocks.size() + 1}, {"attention", attention}, {"on_itself", itself}});
  }
  const PictureInput& input = maps.input;
  return {{"name", input.name},
          {"truth", input.truth.empty() ? json() : json(input.truth)},
          {"width", input.width},
          {"height", input.height},
          {"resized", input.seen.width != input.width || input.seen.height != input.height},
          {"input_width", input.seen.width},
          {"input_height", input.seen.height},
          {"image", picture_url(input.seen)},
          {"top", maps.top},
          {"rows", maps.rows},
          {"columns", maps.columns},
          {"layers", layers},
          {"class_attention", blocks}};
}

}  // namespace tost
