#include "tost/report/page.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/report/panels.h"
#include "tost/report/text.h"

namespace tost {
namespace {

void check_name(std::string_view what, const std::string& name) {
  const bool fits =
      !name.empty() && name.size() <= 120 &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  if (!fits) {
    fail_usage("Report page: the ", what, " '", name.substr(0, 120),
               "' must be 1 to 120 lower-case letters, digits and dashes.");
  }
}

std::string figcaption(const std::string& caption) {
  return caption.empty() ? "" : "<figcaption>" + escape_html(caption) + "</figcaption>";
}

std::string figure(const std::string& name, const std::string& inside, const std::string& caption,
                   const char* kind) {
  return "<figure id=\"fig_" + name + "\" class=\"" + kind + "\">" + inside + figcaption(caption) +
         "</figure>\n";
}

// On narrow screens a chart shrinks to three quarters and then scrolls, so that its words stay
// legible.
std::string chart_html(const Drawing& drawing) {
  return "<div class=\"scroll\" style=\"--least:" + coordinate(std::floor(drawing.width * 0.75)) +
         "px\">" + to_svg(drawing) + "</div>";
}

std::string image_html(const Image& image, const std::string& alt, double width, bool smooth) {
  const double height = width * double(image.height) / double(std::max<int64_t>(image.width, 1));
  std::string html = "<img src=\"" + png_data_uri(image) + "\" alt=\"" + escape_html(alt) +
                     "\" width=\"" + coordinate(std::round(width)) + "\" height=\"" +
                     coordinate(std::max(1.0, std::round(height))) + '"';
  if (!smooth) html += " class=\"pixels\"";
  return html + '>';
}

std::string thumb_html(const Thumb& thumb, double side) {
  if (thumb.image.pixels.empty()) return "<td></td>";
  std::string html = "<td>" + image_html(thumb.image, thumb.alt, side, thumb.smooth);
  if (!thumb.label.empty()) html += "<span>" + escape_html(thumb.label) + "</span>";
  return html + "</td>";
}

// Scrolls sideways by keyboard too.
std::string scroll_box(const std::string& what) {
  return "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"" +
         escape_html(what.empty() ? "table" : what) + "\">";
}

std::string thumbs_html(const ThumbGrid& grid) {
  std::string html = scroll_box(grid.caption) + "<table class=\"thumbs\">";
  if (!grid.column_names.empty()) {
    html += "<thead><tr>";
    if (!grid.row_names.empty()) html += "<td></td>";
    for (const std::string& name : grid.column_names) {
      html += "<th scope=\"col\">" + escape_html(name) + "</th>";
    }
    html += "</tr></thead>";
  }
  html += "<tbody>";
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    html += "<tr>";
    if (!grid.row_names.empty()) {
      html += "<th scope=\"row\">" + escape_html(grid.row_names[r]) + "</th>";
    }
    for (const Thumb& thumb : grid.rows[r]) html += thumb_html(thumb, grid.side);
    html += "</tr>";
  }
  return figure(grid.name, html + "</tbody></table></div>", grid.caption, "grid");
}

void check_grid(const ThumbGrid& grid) {
  if (!grid.row_names.empty() && grid.row_names.size() != grid.rows.size()) {
    fail_usage("Report page, pictures '", grid.name, "': ", grid.row_names.size(), " names for ",
               grid.rows.size(), " rows.");
  }
  if (!(grid.side >= 1 && grid.side <= 4096)) {
    fail_usage("Report page, pictures '", grid.name, "': a side of ", grid.side,
               " pixels; give 1 to 4096.");
  }
}

std::string run_html(const ColoredText& run) {
  const double opacity = ground_opacity(run.strength);
  const std::string text = escape_html(run.text);
  const std::string inner = run.strong ? "<b>" + text + "</b>" : text;
  const std::string title = run.title.empty() ? "" : " title=\"" + escape_html(run.title) + '"';
  if (opacity == 0) return title.empty() ? inner : "<span" + title + '>' + inner + "</span>";
  const auto rgba = [&](double alpha) {
    return cat("rgb(", int{run.color.r}, ' ', int{run.color.g}, ' ', int{run.color.b}, '/',
               coordinate(alpha), ')');
  };
  return "<span" + title + " style=\"background:" + rgba(opacity) + ";box-shadow:0 2px " +
         rgba(std::clamp(run.strength, 0.0, 1.0)) + "\">" + inner + "</span>";
}

std::string passage_html(const std::string& name, const std::vector<ColoredText>& runs,
                         const std::string& caption) {
  std::string html = "<p class=\"passage\">";
  for (const ColoredText& run : runs) html += run_html(run);
  return figure(name, html + "</p>", caption, "text");
}

}  // namespace

Page::Page(std::string title, std::string subtitle)
    : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void Page::section(const std::string& id, const std::string& heading, const std::string& lead) {
  check_name("id of a section", id);
  for (const auto& [known, unused] : contents_) {
    if (known == id) fail_usage("Report page: two sections have the id '", id, "'.");
  }
  if (open_details_ > 0) fail_usage("Report page: section '", id, "' begins inside of details.");
  if (in_section_) body_ += "</section>\n";
  in_section_ = true;
  contents_.emplace_back(id, heading);
  body_ += "<section id=\"" + id + "\"><h2>" + escape_html(heading) + "</h2>\n";
  if (!lead.empty()) body_ += "<p class=\"lead\">" + escape_html(lead) + "</p>\n";
}

void Page::heading(const std::string& text) {
  body_ += "<h3>" + escape_html(text) + "</h3>\n";
}

void Page::paragraph(const std::string& text) {
  body_ += "<p>" + escape_html(text) + "</p>\n";
}

void Page::note(const std::string& text) {
  body_ += "<p class=\"note\">" + escape_html(text) + "</p>\n";
}

void Page::facts(const std::vector<std::pair<std::string, std::string>>& rows) {
  if (rows.empty()) return;
  body_ += "<dl>";
  for (const auto& [name, value] : rows) {
    body_ += "<dt>" + escape_html(name) + "</dt><dd>" + escape_html(value) + "</dd>";
  }
  body_ += "</dl>\n";
}

void Page::table(const Table& table) {
  std::string html = "<figure>";
  if (!table.caption.empty()) {
    html += "<figcaption class=\"above\">" + escape_html(table.caption) + "</figcaption>";
  }
  html += scroll_box(table.caption) + "<table class=\"data\">";
  const auto cell_class = [](const TableCell& cell) -> std::string {
    if (cell.number) return cell.strong ? " class=\"n b\"" : " class=\"n\"";
    return cell.strong ? " class=\"b\"" : "";
  };
  html += "<thead><tr>";
  for (size_t c = 0; c < table.header.size(); ++c) {
    const bool number = !table.rows.empty() && c < table.rows[0].size() && table.rows[0][c].number;
    html += number ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">";
    html += escape_html(table.header[c]) + "</th>";
  }
  html += "</tr></thead><tbody>";
  for (const auto& row : table.rows) {
    if (row.size() != table.header.size()) {
      fail_usage("Report page, table '", table.caption, "': a row of ", row.size(), " cells under ",
                 table.header.size(), " headings.");
    }
    html += "<tr>";
    for (const TableCell& cell : row) {
      html += "<td" + cell_class(cell) + ">" + escape_html(cell.text) + "</td>";
    }
    html += "</tr>";
  }
  body_ += html + "</tbody></table></div></figure>\n";
}

void Page::add_panel(const std::string& name, Drawing drawing) {
  check_name("name of a panel", name);
  for (const Panel& panel : panels_) {
    if (panel.name == name) fail_usage("Report page: two panels have the name '", name, "'.");
  }
  panels_.push_back({name, std::move(drawing)});
}

void Page::chart(const std::string& name, const Drawing& drawing, const std::string& caption) {
  const std::string html = figure(name, chart_html(drawing), caption, "chart");
  add_panel(name, drawing);
  body_ += html;
}

void Page::charts(const std::vector<std::pair<std::string, Drawing>>& named,
                  const std::string& caption) {
  if (named.empty()) return;
  std::string html = "<figure><div class=\"charts\">";
  for (const auto& [name, drawing] : named) {
    html += "<div id=\"fig_" + name + "\">" + chart_html(drawing) + "</div>";
    add_panel(name, drawing);
  }
  body_ += html + "</div>" + figcaption(caption) + "</figure>\n";
}

void Page::picture(const std::string& name, const Image& image, const std::string& alt,
                   double width, bool smooth, const std::string& caption) {
  if (image.pixels.empty() || !(width >= 1 && width <= 16384)) {
    fail_usage("Report page, picture '", name, "': ", image.width, " x ", image.height,
               " pixels at a width of ", width, "; both must be at least 1.");
  }
  const std::string html = figure(name, image_html(image, alt, width, smooth), caption, "picture");
  add_panel(name, picture_panel(image, width, smooth));
  body_ += html;
}

void Page::thumbs(const ThumbGrid& grid) {
  check_grid(grid);
  add_panel(grid.name, thumbs_panel(grid));
  body_ += thumbs_html(grid);
}

void Page::add_chooser(const std::string& name,
                       const std::vector<std::pair<std::string, std::string>>& views) {
  check_name("name of a chooser", name);
  if (std::find(choosers_.begin(), choosers_.end(), name) != choosers_.end()) {
    fail_usage("Report page: two choosers have the name '", name, "'.");
  }
  if (views.empty()) return;
  choosers_.push_back(name);
  std::string html = "<div class=\"chooser\" role=\"radiogroup\">";
  for (size_t v = 0; v < views.size(); ++v) {
    const std::string id = cat("pick_", name, "_", v);
    html += "<input type=\"radio\" name=\"pick_" + name + "\" id=\"" + id + '"' +
            (v == 0 ? " checked" : "") + "><label for=\"" + id + "\">" +
            escape_html(views[v].first) + "</label><div class=\"view\">" + views[v].second +
            "</div>";
  }
  body_ += html + "</div>\n";
}

void Page::chooser(const std::string& name,
                   const std::vector<std::pair<std::string, ThumbGrid>>& views) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (const auto& [label, grid] : views) {
    check_grid(grid);
    add_panel(grid.name, thumbs_panel(grid));
    parts.emplace_back(label, thumbs_html(grid));
  }
  add_chooser(name, parts);
}

void Page::text_chooser(const std::string& name, const std::vector<TextView>& views) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (size_t v = 0; v < views.size(); ++v) {
    const std::string panel = cat(name, '-', v + 1);
    add_panel(panel, colored_text_panel(views[v].runs));
    parts.emplace_back(views[v].label, passage_html(panel, views[v].runs, views[v].caption));
  }
  add_chooser(name, parts);
}

void Page::colored_text(const std::string& name, const std::vector<ColoredText>& runs,
                        const std::string& caption) {
  add_panel(name, colored_text_panel(runs));
  body_ += passage_html(name, runs, caption);
}

void Page::begin_details(const std::string& summary) {
  ++open_details_;
  body_ += "<details><summary>" + escape_html(summary) + "</summary>\n";
}

void Page::end_details() {
  if (open_details_ == 0) fail_usage("Report page: details end that never began.");
  --open_details_;
  body_ += "</details>\n";
}

}  // namespace tost
