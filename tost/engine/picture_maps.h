// Maps of a network on one picture, as /v1/explain and reports show them: predictions, memberships,
// attention and token norms.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/engine/array.h"
#include "tost/engine/predict.h"
#include "tost/engine/text_trace.h"
#include "tost/io/preprocess.h"

namespace tost {

class PictureEngine;
struct ModelInfo;

inline constexpr double kEpsilonSquared = 0.01;  // of the paper's compression figure

// A picture as input of a network, with its metadata.
struct PictureInput {
  std::string name;               // the file, or its place in the data
  std::string truth;              // class it belongs to; "" unknown
  int64_t width = 0, height = 0;  // the file's picture
  Image seen;                     // the network's input, before normalisation
  Array values;                   // [1, C, S, S], normalised
};

// Without a name.
PictureInput picture_input(const Image& image, const Preprocess& preprocess);

// The maps of a layer over N = rows x columns patches, row-major, and R registers.
struct PictureLayer {
  TracedBlock::ByHead memberships;            // of the patches [H][N]; empty where a mixer has none
  std::vector<double> norms, register_norms;  // after the block [N], [R]
  // The measure of nn/layer_rates.h before the layer's step and after it, over all tokens; NaN for
  // a layer without rates.
  double compression_before = std::nan(""), compression_after = std::nan("");
};

struct PictureMaps {
  PictureInput input;
  std::vector<RankedClass> top;  // at most three
  int64_t rows = 0, columns = 0;
  std::vector<PictureLayer> layers;
  // The attention of the class token in each class block, to itself and to each patch [H][1 + N].
  std::vector<TracedBlock::ByHead> class_attention;
};

// Computes the maps in the engine's precision; the picture must have the model's input size.
PictureMaps picture_maps(PictureEngine& engine, const ModelInfo& info, PictureInput input);

// The measure of nn/layer_rates.h for projected tokens w [M, C] and memberships pi [H, M].
double layer_compression(const Array& w, const Array& pi);

// The JSON of one picture, with the network's input as a PNG. Maps are [rows][columns].
nlohmann::json to_json(const PictureMaps& maps);

}  // namespace tost
