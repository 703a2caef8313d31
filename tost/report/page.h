// A report as one self-contained HTML page: no script, no request to anywhere, light and dark by
// the reader's setting, legible on paper and from 360 pixels of width on. Its panels can be had as
// PNG files too.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tost/report/drawing.h"

namespace tost {

// & < > " ' as entities; bytes that are not UTF-8, control characters (but for tabs and line feeds)
// and what XML forbids become U+FFFD.
std::string escape_html(std::string_view text);
// data:image/png;base64,... of one or three channels.
std::string png_data_uri(const Image& image);

struct TableCell {
  std::string text{};
  bool number = false;  // right-aligned, tabular figures
  bool strong = false;
};

struct Table {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<TableCell>> rows;  // each as long as the header
};

// A small picture with its words; `side` is its width on the page in pixels.
struct Thumb {
  Image image{};
  std::string label{};  // above or below; "" none
  std::string alt{};
  bool smooth = false;
};

// Thumbs under row and column headings; empty headings are left out. A cell without image stays
// empty. Scrolls sideways inside the page where it is too wide.
struct ThumbGrid {
  std::string name;  // of the PNG panel: lower case, digits, dashes
  std::string caption;
  std::vector<std::string> row_names, column_names;
  std::vector<std::vector<Thumb>> rows;
  double side = 72;
};

// A run of text on a ground of its own; for passages whose tokens are coloured.
struct ColoredText {
  std::string text{};
  Rgb color{};
  double strength = 0;  // 0 no ground ... 1 full colour
  std::string title{};  // on hover
  bool strong = false;
};

// One of several colourings of a passage.
struct TextView {
  std::string label{};  // on its button
  std::vector<ColoredText> runs;
  std::string caption;
};

// Plain strings are escaped by the page. Panels of one name are a usage Error.
class Page {
 public:
  Page(std::string title, std::string subtitle);

  // Begins a section; `id` serves the contents list and links (#id).
  void section(const std::string& id, const std::string& heading, const std::string& lead = "");
  void heading(const std::string& text);  // below a section
  void paragraph(const std::string& text);
  // A sentence set apart: what was left out and why, or what to beware of.
  void note(const std::string& text);
  void facts(const std::vector<std::pair<std::string, std::string>>& rows);  // name, value
  void table(const Table& table);
  void chart(const std::string& name, const Drawing& drawing, const std::string& caption = "");
  // Charts side by side where there is room.
  void charts(const std::vector<std::pair<std::string, Drawing>>& named,
              const std::string& caption = "");
  void picture(const std::string& name, const Image& image, const std::string& alt, double width,
               bool smooth = true, const std::string& caption = "");
  void thumbs(const ThumbGrid& grid);
  // One of several grids shown at a time, chosen by a row of labelled buttons, without script; all
  // of them on paper.
  void chooser(const std::string& name,
               const std::vector<std::pair<std::string, ThumbGrid>>& views);
  void colored_text(const std::string& name, const std::vector<ColoredText>& runs,
                    const std::string& caption = "");
  // As chooser(), of colourings of a passage; the panels are NAME-1, NAME-2 and so on.
  void text_chooser(const std::string& name, const std::vector<TextView>& views);
  // Folded away until opened; open on paper. Everything between is inside.
  void begin_details(const std::string& summary);
  void end_details();

  // `footer` closes the page; "" none.
  std::string html(const std::string& footer = "") const;
  // The panels in the order they were added: name and PNG (light colours, twice the size).
  std::vector<std::pair<std::string, std::string>> panels() const;

 private:
  struct Panel {
    std::string name;
    Drawing drawing;
  };
  void add_panel(const std::string& name, Drawing drawing);
  // Labels and what they show.
  void add_chooser(const std::string& name,
                   const std::vector<std::pair<std::string, std::string>>& views);

  std::string title_, subtitle_, body_;
  std::vector<std::pair<std::string, std::string>> contents_;
  std::vector<Panel> panels_;
  std::vector<std::string> choosers_;
  bool in_section_ = false;
  int open_details_ = 0;
};

// Refuses a folder that save_report() would refuse, by the same usage Errors: to know it before the
// report is computed. Whether there is an earlier report to replace.
bool check_report_folder(const std::filesystem::path& folder, bool overwrite);

// Writes `folder`/index.html, report.json and panels/NAME.png; a new report is written to a folder
// next to it and renamed into place, so that a failure leaves what was there. An existing folder is
// a usage Error unless it holds nothing, or `overwrite` is set and it is an earlier report.
void save_report(const std::filesystem::path& folder, const Page& page,
                 const nlohmann::json& numbers, bool overwrite);

// The numbers of a report as text.

// How every report.json begins; by it a folder is known to hold a report.
inline constexpr std::string_view kReportMarker = "{\n  \"tost_report\": 1";

// The marker and the members of `numbers`, which must be an object or null (usage Error). Arrays of
// numbers stand in one line, numbers that are not finite are null, bytes that are not UTF-8 U+FFFD.
std::string report_json(const nlohmann::json& numbers);

}  // namespace tost
