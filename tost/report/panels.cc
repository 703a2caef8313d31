#include "tost/report/panels.h"

#include <algorithm>
#include <cmath>

#include "tost/base/utf8.h"
#include "tost/report/text.h"

namespace tost {
namespace {

constexpr double kPanelMargin = 0;  // with_margin adds one
constexpr double kGap = 6;
constexpr double kSize = 11;
constexpr double kLine = 15;
constexpr uint32_t kBreakPlace = 0x200B;  // where HTML may break a line; takes no room

void put_text(Drawing& drawing, Point at, const std::string& text, Anchor anchor, double room) {
  drawing.shapes.push_back(TextShape{.at = at,
                                     .text = fit_text(text, kSize, room),
                                     .size = kSize,
                                     .anchor = anchor,
                                     .paint = Paint::of(Ink::kMuted)});
}

double height_on_page(const Image& image, double width) {
  return image.width < 1 ? 0 : width * double(image.height) / double(image.width);
}

double names_width(const std::vector<std::string>& names) {
  double width = 0;
  for (const std::string& name : names) width = std::max(width, text_width(name, kSize));
  return width == 0 ? 0 : std::min(width, 160.0) + 8;
}

// Draws one row below `top` and returns where the next begins.
double put_row(Drawing& drawing, const ThumbGrid& grid, const std::vector<Thumb>& row, double left,
               double top) {
  double height = 0;
  bool labels = false;
  for (const Thumb& thumb : row) {
    height = std::max(height, height_on_page(thumb.image, grid.side));
    labels = labels || !thumb.label.empty();
  }
  for (size_t c = 0; c < row.size(); ++c) {
    const double x = left + static_cast<double>(c) * (grid.side + kGap);
    const double own = height_on_page(row[c].image, grid.side);
    drawing.shapes.push_back(ImageShape{.x = x,
                                        .y = top,
                                        .width = grid.side,
                                        .height = own,
                                        .image = row[c].image,
                                        .smooth = row[c].smooth});
    put_text(drawing, {x + grid.side / 2, top + own + kLine - 3}, row[c].label, Anchor::kMiddle,
             grid.side + kGap);
  }
  return top + height + (labels ? kLine : 0) + kGap;
}

void move(PathShape& path, double by) {
  for (Point& point : path.points) point = {point.x + by, point.y + by};
}
void move(CircleShape& circle, double by) {
  circle.center = {circle.center.x + by, circle.center.y + by};
}
void move(TextShape& text, double by) {
  text.at = {text.at.x + by, text.at.y + by};
}
template <typename Box>
void move(Box& box, double by) {
  box.x += by;
  box.y += by;
}

}  // namespace

Drawing with_margin(Drawing drawing, double margin) {
  drawing.width += 2 * margin;
  drawing.height += 2 * margin;
  for (Shape& shape : drawing.shapes) {
    std::visit([margin](auto& one) { move(one, margin); }, shape);
  }
  return drawing;
}

Drawing picture_panel(const Image& image, double width, bool smooth) {
  Drawing drawing{.width = width, .height = height_on_page(image, width)};
  drawing.shapes.push_back(
      ImageShape{.width = width, .height = drawing.height, .image = image, .smooth = smooth});
  return drawing;
}

Drawing thumbs_panel(const ThumbGrid& grid) {
  Drawing drawing;
  size_t columns = grid.column_names.size();
  for (const auto& row : grid.rows) columns = std::max(columns, row.size());
  const double left = kPanelMargin + names_width(grid.row_names);
  double y = kPanelMargin;
  if (!grid.column_names.empty()) {
    for (size_t c = 0; c < grid.column_names.size(); ++c) {
      const double x = left + static_cast<double>(c) * (grid.side + kGap) + grid.side / 2;
      put_text(drawing, {x, y + kSize}, grid.column_names[c], Anchor::kMiddle, grid.side + kGap);
    }
    y += kLine + 3;
  }
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    const double top = y;
    y = put_row(drawing, grid, grid.rows[r], left, y);
    if (grid.row_names.empty()) continue;
    put_text(drawing, {left - 8, (top + y - kGap) / 2 + 4}, grid.row_names[r], Anchor::kEnd, 160);
  }
  drawing.width = std::max(
      left + static_cast<double>(columns) * (grid.side + kGap) - kGap + kPanelMargin, 40.0);
  drawing.height = std::max(y - kGap + kPanelMargin, 24.0);
  return drawing;
}

double ground_opacity(double strength) {
  const double part = std::isnan(strength) ? 0 : std::clamp(strength, 0.0, 1.0);
  return part == 0 ? 0 : 0.06 + 0.34 * part;
}

Drawing colored_text_panel(const std::vector<ColoredText>& runs) {
  constexpr double kTextSize = 13, kRow = 25, kWidth = 760;
  const double advance = kMonoWidth * kTextSize;
  Drawing drawing{.width = kWidth};
  double x = kPanelMargin, y = kPanelMargin + 18;
  const auto put = [&](const ColoredText& run, const std::string& piece, double width) {
    const double opacity = ground_opacity(run.strength);
    if (opacity > 0) {
      Paint paint = Paint::of_rgb(run.color);
      paint.opacity = opacity;
      drawing.shapes.push_back(
          RectShape{.x = x, .y = y - 14, .width = width, .height = 19, .fill = paint});
      paint.opacity = std::clamp(run.strength, 0.0, 1.0);
      drawing.shapes.push_back(
          RectShape{.x = x, .y = y + 5, .width = width, .height = 2.5, .fill = paint});
    }
    drawing.shapes.push_back(TextShape{
        .at = {x, y}, .text = piece, .size = kTextSize, .bold = run.strong, .mono = true});
    x += width;
  };
  for (const ColoredText& run : runs) {
    std::string piece;
    double width = 0;
    const auto flush = [&] {
      if (!piece.empty()) put(run, piece, width);
      piece.clear();
      width = 0;
    };
    for (const uint32_t code : code_points(run.text)) {
      if (code == kBreakPlace) continue;
      if (code == '\n' || x + width + advance > kWidth - kPanelMargin) {
        flush();
        x = kPanelMargin;
        y += kRow;
        if (code == '\n') continue;
      }
      append_utf8(piece, code == '\t' ? ' ' : code);
      width += advance;
    }
    flush();
  }
  drawing.height = y + kPanelMargin + 8;
  return drawing;
}

}  // namespace tost
