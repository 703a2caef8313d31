#include <algorithm>
#include <cmath>
#include <string>

#include "tost/base/error.h"
#include "tost/io/base64.h"
#include "tost/report/color_map.h"
#include "tost/report/ink.h"
#include "tost/report/page.h"
#include "tost/report/panels.h"

namespace tost {
namespace {

// The style sheet of a page.

constexpr char kText[] = R"css(
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;scroll-padding-top:1.5rem}
body{margin:0;background:var(--surface);color:var(--text);
font:16px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans",Arial,sans-serif;
overflow-wrap:break-word}
.page{max-width:86rem;margin:0 auto;padding:3.5rem 2rem 5rem}
header{max-width:46rem;margin-bottom:3rem}
h1{font-size:2.1rem;line-height:1.18;letter-spacing:-.018em;font-weight:650;margin:0 0 .6rem;text-wrap:balance}
.subtitle{font-size:1.08rem;color:var(--muted);margin:0}
h2{font-size:1.42rem;line-height:1.25;letter-spacing:-.012em;font-weight:640;margin:0 0 .7rem}
h3{font-size:1.05rem;line-height:1.35;font-weight:640;margin:2.4rem 0 .5rem}
p{margin:0 0 1rem;max-width:44rem}
.lead{color:var(--muted);font-size:1.03rem}
section{padding-top:2.6rem;margin-top:2.6rem;border-top:1px solid var(--grid)}
section:first-of-type{border-top:0;padding-top:0;margin-top:0}
a{color:var(--accent);text-decoration-thickness:1px;text-underline-offset:.2em}
:focus-visible{outline:2px solid var(--accent);outline-offset:3px;border-radius:3px}
.note{max-width:44rem;margin:1.4rem 0;padding:.7rem 1rem;border-left:3px solid var(--accent);
background:var(--tint);border-radius:0 6px 6px 0;font-size:.95rem}
footer{margin-top:4.5rem;padding-top:1.2rem;border-top:1px solid var(--grid);color:var(--muted);font-size:.85rem}
)css";

constexpr char kContents[] = R"css(
nav{font-size:.9rem;margin-bottom:3rem}
nav ol{list-style:none;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:.35rem 1.3rem}
nav p{margin:0 0 .4rem;color:var(--muted);font-size:.78rem;letter-spacing:.04em;text-transform:uppercase}
nav a{color:var(--text);text-decoration:none;display:block;padding:.18rem 0}
nav a:hover{color:var(--accent);text-decoration:underline}
@media(min-width:72rem){
.columns{display:grid;grid-template-columns:13rem minmax(0,1fr);gap:4rem}
nav{position:sticky;top:2rem;align-self:start;max-height:calc(100vh - 4rem);overflow-y:auto;margin:0}
nav ol{display:block}
nav li{border-left:2px solid var(--grid);padding-left:.9rem}
nav li:hover{border-color:var(--accent)}
nav ol{scroll-target-group:auto}
nav a:target-current{color:var(--accent)}
}
)css";

constexpr char kFigures[] = R"css(
figure{margin:1.8rem 0}
figcaption{font-size:.88rem;line-height:1.5;color:var(--muted);max-width:44rem;margin-top:.7rem}
figcaption.above{margin:0 0 .5rem}
svg{display:block;font-variant-numeric:tabular-nums}
img{display:block;max-width:100%;height:auto;border-radius:3px}
.pixels{image-rendering:pixelated}
.scroll{overflow-x:auto;overscroll-behavior-x:contain;padding-bottom:2px;scrollbar-width:thin;
background:linear-gradient(to right,var(--surface) 40%,transparent) left/3rem 100% local,
linear-gradient(to left,var(--surface) 40%,transparent) right/3rem 100% local,
linear-gradient(to right,var(--muted),transparent) left/.6rem calc(100% - 4px),
linear-gradient(to left,var(--muted),transparent) right/.6rem calc(100% - 4px);background-repeat:no-repeat}
.scroll svg{max-width:100%;min-width:var(--least);height:auto}
.charts{display:flex;flex-wrap:wrap;gap:1.6rem 2.4rem;align-items:flex-start}
.charts>div{max-width:100%;min-width:0}
table{border-collapse:collapse}
.data{width:max-content;font-size:.93rem;font-variant-numeric:tabular-nums}
.data th,.data td{max-width:26rem;padding:.42rem 1.1rem .42rem 0;text-align:left;vertical-align:baseline}
.data thead th{font-weight:600;font-size:.85rem;color:var(--muted);border-bottom:1px solid var(--muted)}
.data tbody tr{border-bottom:1px solid var(--grid)}
.data .n{text-align:right;white-space:nowrap}
.data .b{font-weight:650}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.3rem 1.6rem;margin:1.4rem 0;
font-size:.95rem;max-width:52rem}
dt{color:var(--muted)}
dd{margin:0;font-variant-numeric:tabular-nums}
.thumbs{font-size:.8rem;line-height:1.3}
.thumbs th{font-weight:400;color:var(--muted)}
.thumbs thead th{padding:0 .35rem .35rem 0;text-align:center;vertical-align:bottom}
.thumbs tbody th{padding-right:.9rem;text-align:left;min-width:3rem;max-width:9rem;position:sticky;left:0;
background:var(--surface);z-index:1}
.thumbs td{padding:0 .35rem .35rem 0;vertical-align:top;text-align:center}
.thumbs span{display:block;padding-top:.2rem;color:var(--muted);font-variant-numeric:tabular-nums}
.thumbs img{max-width:none}
)css";

constexpr char kParts[] = R"css(
.chooser{display:flex;flex-wrap:wrap;gap:.4rem;margin:1.8rem 0;border:0;padding:0;min-width:0;position:relative}
.chooser>input{position:absolute;opacity:0;width:1px;height:1px;margin:0}
.chooser>label{padding:.22rem .75rem;border:1px solid var(--grid);border-radius:99px;font-size:.86rem;
cursor:pointer;color:var(--muted);user-select:none}
.chooser>label:hover{border-color:var(--muted);color:var(--text)}
.chooser>input:checked+label{background:var(--text);border-color:var(--text);color:var(--surface)}
.chooser>input:focus-visible+label{outline:2px solid var(--accent);outline-offset:2px}
.chooser>.view{display:none;order:1;flex:0 0 100%;min-width:0;margin-top:.8rem}
.chooser>input:checked+label+.view{display:block}
.chooser figure{margin:0}
.passage{max-width:52rem;font-size:1.02rem;line-height:2;white-space:pre-wrap;overflow-wrap:anywhere;margin:0}
.passage span{border-radius:3px 3px 0 0;padding:.12em 0}
.passage b{font-weight:700}
details{margin:1.6rem 0;border:1px solid var(--grid);border-radius:8px;padding:0 1.1rem}
summary{cursor:pointer;padding:.65rem 0;font-weight:600;font-size:.95rem}
summary::marker{color:var(--muted)}
details[open]{padding-bottom:.6rem}
@media(max-width:40rem){
.page{padding:2rem 1.1rem 3rem}
h1{font-size:1.65rem}
dl{grid-template-columns:minmax(0,1fr);gap:0}
dd{margin-bottom:.6rem}
.thumbs tbody th{max-width:5rem}
}
)css";

constexpr char kPrint[] = R"css(
@media print{
@page{margin:16mm 14mm}
body{font-size:10.5pt}
.page{padding:0;max-width:none}
.columns{display:block}
nav{position:static;max-height:none;break-after:avoid}
nav ol{columns:2}
section{break-inside:auto}
h2,h3,.lead,summary,.chooser>label{break-after:avoid}
summary{list-style:none}
figure,.note,tr,.view{break-inside:avoid}
details{border:0;padding:0}
details::details-content{content-visibility:visible;height:auto;display:block}
.chooser{display:block}
.chooser>input{display:none}
.chooser>label,.chooser>input:checked+label{display:block;border:0;padding:.6rem 0 0;background:none;
color:var(--text);font-weight:600}
.chooser>.view{display:block}
.scroll{overflow:visible;background:none}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
}
)css";

std::string page_style() {
  const std::string accent = "--accent:var(--series-0);";
  const std::string light = ":root{color-scheme:light dark;" + ink_declarations(light_inks()) +
                            accent + "--tint:#f5f7f9}";
  const std::string dark = "@media screen and (prefers-color-scheme:dark){:root{" +
                           ink_declarations(dark_inks()) + "--tint:#1c1f25}}";
  return light + "\n" + dark + kText + kContents + kFigures + kParts + kPrint;
}

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

std::string png_data_uri(const Image& image) {
  return "data:image/png;base64," + to_base64(encode_png(image));
}

}  // namespace tost
