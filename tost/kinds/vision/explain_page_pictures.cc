#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/explain/numbers.h"
#include "tost/explain/selection.h"
#include "tost/kinds/vision/explain_images.h"
#include "tost/kinds/vision/explain_page_parts.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr double kMapBytes = 12e6;  // of all maps laid over pictures, as text in the page
constexpr double kBytesPerPixel = 3 * 4.0 / 3;  // RGB that does not compress, in base64
constexpr int64_t kSmallestMap = 48, kLargestMap = 160;
constexpr int64_t kMostRows = 200;  // of the table of further pictures

std::string panel(const char* what, size_t picture) {
  return cat(what, "-", picture + 1);
}

std::vector<std::string> head_names(const VisionReport& report) {
  std::vector<std::string> names;
  for (const int64_t head : report.heads) names.push_back(cat("head ", head));
  return names;
}

// Side of a thumb on the page so that about `across` of them fit side by side.
double thumb_side(size_t across) {
  return std::clamp(760.0 / double(std::max<size_t>(across, 1)), 56.0, 150.0);
}

// What fit_image() did to a picture of another size than the input's.
std::string size_text(const PictureInput& input, const Preprocess& p) {
  const std::string found = cat(input.width, " × ", input.height, " pixels");
  const std::string seen = cat(input.seen.width, " × ", input.seen.height);
  if (!input.resized) return found;
  const bool same_shape = input.width == input.height;
  if (p.resize == "squeeze") {
    return cat(found, ", resized to ", seen, same_shape ? "" : "; the aspect ratio is lost");
  }
  const auto shorter = int64_t(std::floor(double(p.size) / p.crop_ratio + 1e-6));
  if (same_shape && shorter == p.size) return cat(found, ", resized to ", seen);
  return cat(found, ", shorter side resized to ", shorter, ", then the central ", seen,
             " taken: the rest is not seen");
}

void add_facts(Page& page, const PictureMaps& maps, const Preprocess& preprocess, size_t index) {
  const PictureInput& input = maps.input;
  page.picture(panel("picture", index), reduced(input.seen, 320), input.name, 200,
               /*smooth=*/input.seen.width >= 48);
  std::vector<std::pair<std::string, std::string>> rows;
  if (!input.truth.empty()) rows.emplace_back("class", input.truth);
  for (size_t k = 0; k < maps.top.size(); ++k) {
    rows.emplace_back(cat("guess ", k + 1),
                      cat(maps.top[k].name, ", ", percent(maps.top[k].probability)));
  }
  rows.emplace_back("size", size_text(input, preprocess));
  if (maps.rows > 0) {
    rows.emplace_back("tokens", cat(maps.rows, " × ", maps.columns, " patches"));
  }
  page.facts(rows);
}

// One layer's maps of the heads, all at the scale 1/H - span ... 1/H + span, then the most
// likely head, the entropy and the norms.
std::vector<Thumb> grid_row(const VisionReport& report, const PictureMaps& maps, size_t layer_index,
                            double span) {
  const PictureLayer& layer = maps.layers[layer_index];
  const double middle = 1.0 / double(report.info.config.heads);
  const std::string where = cat(", layer ", layer_index + 1, " of ", maps.input.name);
  std::vector<Thumb> row;
  for (const int64_t head : report.heads) {
    row.push_back({map_image(layer.memberships[head - 1], maps.rows, maps.columns, middle - span,
                             middle + span, ColorMap::kDiverging),
                   "", cat("membership in head ", head, where)});
  }
  row.push_back(
      {groups_image(layer.likeliest, maps.rows, maps.columns), "", cat("most likely head", where)});
  row.push_back({map_image(layer.entropy, maps.rows, maps.columns,
                           layer.entropy.min().item<double>(), layer.entropy.max().item<double>()),
                 cat("mean ", near_one(layer.entropy.mean().item<double>())),
                 cat("entropy", where)});
  const double longest = layer.norms.max().item<double>();
  row.push_back({map_image(layer.norms, maps.rows, maps.columns, 0, longest),
                 cat("to ", shown(longest, 2)), cat("token norms", where)});
  return row;
}

void add_grid(Page& page, const VisionReport& report, const PictureMaps& maps, size_t index) {
  const double middle = 1.0 / double(report.info.config.heads);
  ThumbGrid grid;
  grid.name = panel("memberships", index);
  grid.column_names = head_names(report);
  grid.column_names.insert(grid.column_names.end(), {"most likely", "entropy", "norm"});
  grid.side = std::min(thumb_side(grid.column_names.size()), 96.0);
  for (size_t i = 0; i < maps.layers.size(); ++i) {
    const double span = (maps.layers[i].memberships - middle).abs().max().item<double>();
    grid.row_names.push_back(cat("layer ", i + 1, ", ± ", shown(span, 1)));
    grid.rows.push_back(grid_row(report, maps, i, std::isfinite(span) ? span : 1));
  }
  grid.caption = cat(
      "Memberships around the uniform membership 1/H = ", shown(middle, 3),
      " (the neutral colour), in each row at one scale for all heads, whose half width stands at "
      "its left. Entropies from each map's lowest (dark) to its highest, below it the mean divided "
      "by log H: 1 is undecided. Norms from 0 to the layer's longest token.");
  page.thumbs(grid);
}

void add_maps_over_picture(Page& page, const VisionReport& report, const PictureMaps& maps,
                           size_t index, const MapPlan& plan) {
  const Image picture = reduced(maps.input.seen, plan.side);
  std::vector<std::pair<std::string, ThumbGrid>> views;
  for (const int64_t number : plan.layers) {
    const PictureLayer& layer = maps.layers[size_t(number - 1)];
    ThumbGrid grid;
    grid.name = cat(panel("memberships-over-picture", index), "-layer-", number);
    grid.column_names = head_names(report);
    grid.column_names.emplace_back("most likely");
    grid.side = thumb_side(grid.column_names.size());
    auto& row = grid.rows.emplace_back();
    for (const int64_t head : report.heads) {
      const Tensor values = layer.memberships[head - 1];
      row.push_back(
          {map_over(picture, values, maps.rows, maps.columns), range_of(values),
           cat("membership in head ", head, " of layer ", number, " over ", maps.input.name)});
    }
    row.push_back({blend(to_channels(to_channels(picture, 1), 3),
                         groups_image(layer.likeliest, maps.rows, maps.columns), 0.6, false),
                   "", cat("most likely head in layer ", number, " over ", maps.input.name)});
    grid.caption = cat("Layer ", number,
                       ": each map from its own lowest (dark) to its own highest membership ",
                       "(bright), the range written below it; heads without influence would show ",
                       shown(1.0 / double(report.info.config.heads), 3), " everywhere.");
    views.emplace_back(cat("layer ", number), std::move(grid));
  }
  page.chooser(panel("layers", index), views);
}

void add_class_attention(Page& page, const VisionReport& report, const PictureMaps& maps,
                         size_t index, const MapPlan& plan) {
  if (maps.class_attention.empty()) return;
  page.heading("Where the class token looks");
  const Image picture = reduced(maps.input.seen, plan.side);
  ThumbGrid grid;
  grid.name = panel("class-attention", index);
  grid.column_names = head_names(report);
  grid.side = thumb_side(grid.column_names.size());
  for (size_t block = 0; block < maps.class_attention.size(); ++block) {
    grid.row_names.push_back(cat("block ", block + 1));
    auto& row = grid.rows.emplace_back();
    for (const int64_t head : report.heads) {
      row.push_back(
          {map_over(picture, maps.class_attention[block][head - 1], maps.rows, maps.columns),
           cat("itself ", percent(maps.class_on_itself[block][head - 1].item<double>(), 0)),
           cat("class attention of head ", head, ", block ", block + 1, " over ",
               maps.input.name)});
    }
  }
  grid.caption =
      "Softmax attention of the class token over the patches in the blocks after the layers, each "
      "map from its lowest to its highest share. Below it the share the class token keeps for "
      "itself.";
  page.thumbs(grid);
}

void add_norms_alone(Page& page, const PictureMaps& maps, size_t index) {
  ThumbGrid grid;
  grid.name = panel("norms", index);
  grid.side = std::min(thumb_side(maps.layers.size()), 96.0);
  auto& row = grid.rows.emplace_back();
  for (size_t i = 0; i < maps.layers.size(); ++i) {
    const Tensor norms = maps.layers[i].norms;
    grid.column_names.push_back(cat("layer ", i + 1));
    const double longest = norms.max().item<double>();
    row.push_back({map_image(norms, maps.rows, maps.columns, 0, longest),
                   cat("to ", shown(longest, 2)),
                   cat("token norms after layer ", i + 1, " of ", maps.input.name)});
  }
  grid.caption = "Token norms after each layer, from 0 (dark) to the longest.";
  page.thumbs(grid);
}

void add_picture(Page& page, const VisionReport& report, size_t index, const MapPlan& plan) {
  const PictureMaps& maps = report.pictures[index];
  add_facts(page, maps, report.info.preprocess, index);
  if (maps.layers.empty()) return;
  if (maps.layers.front().memberships.defined()) {
    page.heading("Memberships Π over the picture, by layer");
    add_maps_over_picture(page, report, maps, index, plan);
    page.heading("All layers");
    add_grid(page, report, maps, index);
  } else {
    add_norms_alone(page, maps, index);
  }
  add_class_attention(page, report, maps, index, plan);
}

// Of all heads: any of them may be a patch's most likely one, shown in maps of its own or not.
void add_head_colors(Page& page, const VisionReport& report) {
  std::vector<ColoredText> runs;
  for (int64_t head = 1; head <= report.info.config.heads; ++head) {
    runs.push_back(
        {.text = cat(" head ", head, " "), .color = group_color(head - 1), .strength = 1});
    runs.push_back({.text = " "});
  }
  page.colored_text("head-colors", runs,
                    cat("Colours in the maps of the most likely head, the one of all ",
                        report.info.config.heads, " heads with the largest membership",
                        report.info.config.heads > 16 ? "; they repeat after 16." : "."));
}

}  // namespace

MapPlan plan_maps(int64_t pictures, int64_t layers, int64_t heads) {
  const auto side_for = [&](int64_t shown_layers) {
    const auto maps = double(pictures * (shown_layers + 2) * (heads + 1));
    return int64_t(std::sqrt(kMapBytes / kBytesPerPixel / std::max(maps, 1.0)));
  };
  int64_t shown_layers = layers;
  while (shown_layers > 3 && side_for(shown_layers) < kSmallestMap) --shown_layers;
  return {std::clamp(side_for(shown_layers), kSmallestMap / 2, kLargestMap),
          spread_numbers(layers, shown_layers)};
}

void add_picture_sections(Page& page, const VisionReport& report) {
  const auto count = int64_t(report.pictures.size());
  const int64_t layers = count == 0 ? 0 : int64_t(report.pictures.front().layers.size());
  const MapPlan plan = plan_maps(count, layers, int64_t(report.heads.size()));
  const bool heads = layers > 0 && report.pictures.front().layers.front().memberships.defined();
  page.section("pictures", count == 1 ? "The picture" : "Pictures",
               !heads ? ""
                      : "The membership Π says how strongly each token (patch) belongs to each "
                        "head; over the heads it sums to 1.");
  if (heads) add_head_colors(page, report);
  if (heads && int64_t(plan.layers.size()) < layers) {
    page.note(cat("Maps over the pictures are shown for ", plan.layers.size(), " of ", layers,
                  " layers, to keep the page small; the grid of all layers and report.json hold "
                  "every layer."));
  }
  for (size_t i = 0; i < report.pictures.size(); ++i) {
    const std::string heading = cat(i + 1, ". ", report.pictures[i].input.name);
    if (i == 0) {
      page.heading(report.pictures[i].input.name);
      add_picture(page, report, i, plan);
      continue;
    }
    page.begin_details(heading);
    add_picture(page, report, i, plan);
    page.end_details();
  }
}

void add_other_pictures(Page& page, const VisionReport& report) {
  if (report.others.empty()) return;
  page.section(
      "other-pictures", "Further pictures",
      cat("The first ", report.pictures.size(), " pictures are shown in full; of the ",
          human_number(int64_t(report.others.size())), " others, these are the predictions."));
  Table table;
  table.header = {"picture", "class", "guess", "probability", "mean entropy"};
  for (const PictureSummary& other : report.others) {
    if (int64_t(table.rows.size()) == kMostRows) break;
    table.rows.push_back({{other.name},
                          {other.truth},
                          {other.top.name},
                          number_cell(percent(other.top.probability)),
                          number_cell(near_one(other.entropy))});
  }
  page.table(table);
  if (int64_t(report.others.size()) > kMostRows) {
    page.note(cat("The table ends after ", kMostRows, " pictures; report.json holds all ",
                  human_number(int64_t(report.others.size())), "."));
  }
}

}  // namespace tost
