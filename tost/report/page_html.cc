#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/report/color_map.h"
#include "tost/report/page.h"
#include "tost/report/page_style.h"
#include "tost/report/panels.h"

namespace tost {
namespace {

// Four patches in group colours: what memberships look like.
std::string icon() {
  constexpr int64_t kSide = 32;
  Image image(kSide, kSide, 3);
  for (int64_t y = 0; y < kSide; ++y) {
    for (int64_t x = 0; x < kSide; ++x) {
      const Rgb color =
          color_of(ColorMap::kSequential, 0.15 + 0.23 * double(2 * (y / 16) + x / 16));
      uint8_t* pixel = image.row(y) + 3 * x;
      pixel[0] = color.r;
      pixel[1] = color.g;
      pixel[2] = color.b;
    }
  }
  return png_data_uri(image);
}

std::string head(const std::string& title) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n"
         "<meta name=\"referrer\" content=\"no-referrer\">\n<title>" +
         escape_html(title) + "</title>\n<link rel=\"icon\" href=\"" + icon() + "\">\n<style>" +
         page_style() + "</style>\n</head>\n";
}

}  // namespace

std::string Page::html(const std::string& footer) const {
  if (open_details_ > 0) fail_usage("Report page: ", open_details_, " details are not ended.");
  std::string html =
      head(title_) + "<body>\n<div class=\"page\">\n<header><h1>" + escape_html(title_) + "</h1>";
  if (!subtitle_.empty()) html += "<p class=\"subtitle\">" + escape_html(subtitle_) + "</p>";
  html += "</header>\n<div class=\"columns\">\n<nav aria-label=\"Contents\"><p>Contents</p><ol>";
  for (const auto& [id, heading] : contents_) {
    html += "<li><a href=\"#" + id + "\">" + escape_html(heading) + "</a></li>";
  }
  html += "</ol></nav>\n<main>\n" + body_;
  if (in_section_) html += "</section>\n";
  if (!footer.empty()) html += "<footer>" + escape_html(footer) + "</footer>\n";
  return html + "</main>\n</div>\n</div>\n</body>\n</html>\n";
}

std::vector<std::pair<std::string, std::string>> Page::panels() const {
  constexpr double kMost = 60e6;
  std::vector<std::pair<std::string, std::string>> files;
  for (const Panel& panel : panels_) {
    // Panels too large at twice the size are made as large as pictures may be.
    const Drawing drawing = with_margin(panel.drawing, 12);
    double scale = std::min(2.0, std::sqrt(kMost / (drawing.width * drawing.height)));
    scale = std::min(scale, 32000 / std::max(drawing.width, drawing.height));
    files.emplace_back(panel.name, encode_png(to_image(drawing, scale)));
  }
  return files;
}

}  // namespace tost
