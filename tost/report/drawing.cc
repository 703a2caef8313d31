#include "tost/report/drawing.h"

#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <numbers>

#include "tost/base/error.h"
#include "tost/report/ink.h"
#include "tost/report/page.h"
#include "tost/report/text.h"

namespace tost {
namespace {

constexpr char kSans[] =
    "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans',Arial,sans-serif";
constexpr char kMono[] = "ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace";

class SvgWriter {
 public:
  explicit SvgWriter(bool variables) : variables_(variables) {}

  void operator()(const PathShape& path) {
    if (path.points.empty()) return;
    svg_ += "<path d=\"";
    char command = 'M';
    for (const Point& point : path.points) {
      svg_ += command + coordinate(point.x) + ' ' + coordinate(point.y);
      command = 'L';
    }
    svg_ += path.closed ? "Z\"" : "\"";
    paint(path.fill, path.stroke, path.width);
    if (path.dashed) svg_ += " stroke-dasharray=\"5 4\"";
    svg_ += " stroke-linejoin=\"round\" stroke-linecap=\"round\"/>";
  }

  void operator()(const CircleShape& circle) {
    svg_ += "<circle";
    number("cx", circle.center.x);
    number("cy", circle.center.y);
    number("r", circle.radius);
    paint(circle.fill, circle.stroke, 1.5);
    close("circle", circle.title);
  }

  void operator()(const RectShape& rect) {
    svg_ += "<rect";
    box(rect);
    paint(rect.fill, rect.stroke, 1);
    close("rect", rect.title);
  }

  void operator()(const TextShape& text) {
    svg_ += "<text";
    number("x", text.at.x);
    number("y", text.at.y);
    number("font-size", text.size);
    if (text.anchor == Anchor::kMiddle) svg_ += " text-anchor=\"middle\"";
    if (text.anchor == Anchor::kEnd) svg_ += " text-anchor=\"end\"";
    if (text.bold) svg_ += " font-weight=\"600\"";
    if (text.mono) svg_ += std::string(" style=\"white-space:pre\" font-family=\"") + kMono + '"';
    if (text.degrees != 0) {
      svg_ += " transform=\"rotate(" + coordinate(text.degrees) + ' ' + coordinate(text.at.x) +
              ' ' + coordinate(text.at.y) + ")\"";
    }
    paint(text.paint, {}, 0);
    svg_ += '>' + escape_html(text.text) + "</text>";
  }

  void operator()(const ImageShape& image) {
    if (image.image.pixels.empty()) return;
    svg_ += "<image";
    box(image);
    svg_ += " preserveAspectRatio=\"none\"";
    if (!image.smooth) svg_ += " style=\"image-rendering:pixelated\"";
    svg_ += " href=\"" + png_data_uri(image.image) + '"';
    close("image", image.title);
  }

  std::string take() { return std::move(svg_); }

 private:
  void number(const char* name, double value) {
    svg_ += ' ';
    svg_ += name;
    svg_ += "=\"" + coordinate(value) + '"';
  }

  template <typename Shape>
  void box(const Shape& shape) {
    number("x", shape.x);
    number("y", shape.y);
    number("width", shape.width);
    number("height", shape.height);
  }

  void color(const char* name, const Paint& paint) {
    svg_ += ' ';
    svg_ += name;
    svg_ += "=\"";
    svg_ += paint.fixed || !variables_ ? hex(light_inks().of(paint))
                                       : "var(" + ink_variable(paint) + ")";
    svg_ += '"';
    if (paint.opacity < 1) {
      svg_ += ' ';
      svg_ += name;
      svg_ += "-opacity=\"" + coordinate(paint.opacity) + '"';
    }
  }

  void paint(const Paint& fill, const Paint& stroke, double width) {
    if (fill.fixed || fill.ink != Ink::kNone) {
      color("fill", fill);
    } else {
      svg_ += " fill=\"none\"";
    }
    if (stroke.fixed || stroke.ink != Ink::kNone) {
      color("stroke", stroke);
      number("stroke-width", width);
    }
  }

  void close(const char* element, const std::string& title) {
    if (title.empty()) {
      svg_ += "/>";
    } else {
      svg_ += "><title>" + escape_html(title) + "</title></" + element + '>';
    }
  }

  bool variables_;
  std::string svg_;
};

std::string shapes_of(const Drawing& drawing, bool variables) {
  SvgWriter writer(variables);
  for (const Shape& shape : drawing.shapes) std::visit(writer, shape);
  return writer.take();
}

std::string attributes(const Drawing& drawing) {
  const std::string width = coordinate(drawing.width), height = coordinate(drawing.height);
  return " viewBox=\"0 0 " + width + ' ' + height + "\" width=\"" + width + "\" height=\"" +
         height + "\" role=\"img\" aria-label=\"" + escape_html(drawing.description) + '"';
}

}  // namespace

std::string to_svg(const Drawing& drawing) {
  return "<svg" + attributes(drawing) + '>' + shapes_of(drawing, true) + "</svg>";
}

std::string to_svg_file(const Drawing& drawing, bool adaptive) {
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attributes(drawing) +
                    " font-family=\"" + kSans + "\">";
  if (adaptive) {
    svg += "<style>:root{" + ink_declarations(light_inks()) +
           "}@media(prefers-color-scheme:dark){:root{" + ink_declarations(dark_inks()) +
           "}}svg{font-variant-numeric:tabular-nums}</style>";
  }
  SvgWriter writer(adaptive);
  writer(RectShape{
      .width = drawing.width, .height = drawing.height, .fill = Paint::of(Ink::kSurface)});
  return svg + writer.take() + shapes_of(drawing, adaptive) + "</svg>\n";
}

namespace {

using Surface = std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)>;
using Context = std::unique_ptr<cairo_t, decltype(&cairo_destroy)>;

constexpr double kMaxPixels = 64e6;

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) {
    fail_data("A drawing cannot be made into a picture: ", cairo_status_to_string(status), ".");
  }
}

Surface new_surface(int64_t width, int64_t height) {
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width),
                                             static_cast<int>(height)),
                  cairo_surface_destroy);
  check(cairo_surface_status(surface.get()));
  return surface;
}

Surface surface_of(const Image& image) {
  Surface surface = new_surface(image.width, image.height);
  const Image rgb = to_channels(image, 3);
  cairo_surface_flush(surface.get());
  unsigned char* data = cairo_image_surface_get_data(surface.get());
  const int stride = cairo_image_surface_get_stride(surface.get());
  for (int64_t y = 0; y < rgb.height; ++y) {
    auto* row = reinterpret_cast<uint32_t*>(data + y * stride);
    for (int64_t x = 0; x < rgb.width; ++x) {
      const uint8_t* p = rgb.row(y) + 3 * x;
      row[x] = uint32_t{p[0]} << 16 | uint32_t{p[1]} << 8 | p[2];
    }
  }
  cairo_surface_mark_dirty(surface.get());
  return surface;
}

// Whether text can be set at all: without any font installed a context would break.
bool has_font(cairo_t* context) {
  cairo_scaled_font_t* font = cairo_get_scaled_font(context);
  return cairo_scaled_font_status(font) == CAIRO_STATUS_SUCCESS;
}

struct FiniteCheck {
  static void all(std::initializer_list<double> values) {
    for (const double value : values) coordinate(value);
  }
  void operator()(const PathShape& path) const {
    all({path.width});
    for (const Point& point : path.points) all({point.x, point.y});
  }
  void operator()(const CircleShape& c) const { all({c.center.x, c.center.y, c.radius}); }
  void operator()(const TextShape& text) const {
    all({text.at.x, text.at.y, text.size, text.degrees});
  }
  template <typename Box>
  void operator()(const Box& box) const {
    all({box.x, box.y, box.width, box.height});
  }
};

class Painter {
 public:
  explicit Painter(cairo_t* context) : context_(context) {}

  void operator()(const PathShape& path) {
    if (path.points.empty()) return;
    for (const Point& point : path.points) cairo_line_to(context_, point.x, point.y);
    if (path.closed) cairo_close_path(context_);
    cairo_set_line_join(context_, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(context_, CAIRO_LINE_CAP_ROUND);
    constexpr double kDashes[] = {5, 4};
    if (path.dashed) cairo_set_dash(context_, kDashes, 2, 0);
    fill_and_stroke(path.fill, path.stroke, path.width);
    cairo_set_dash(context_, nullptr, 0, 0);
  }

  void operator()(const CircleShape& circle) {
    cairo_new_sub_path(context_);
    cairo_arc(context_, circle.center.x, circle.center.y, circle.radius, 0, 2 * std::numbers::pi);
    fill_and_stroke(circle.fill, circle.stroke, 1.5);
  }

  void operator()(const RectShape& rect) {
    cairo_rectangle(context_, rect.x, rect.y, rect.width, rect.height);
    fill_and_stroke(rect.fill, rect.stroke, 1);
  }

  void operator()(const TextShape& text) {
    if (!use(text.paint)) return;
    cairo_save(context_);
    cairo_select_font_face(context_, text.mono ? "monospace" : "sans-serif",
                           CAIRO_FONT_SLANT_NORMAL,
                           text.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(context_, text.size);
    if (has_font(context_)) {
      const std::string shown = clean_text(text.text);
      cairo_text_extents_t extents;
      cairo_text_extents(context_, shown.c_str(), &extents);
      const double share = text.anchor == Anchor::kStart    ? 0
                           : text.anchor == Anchor::kMiddle ? 0.5
                                                            : 1;
      cairo_translate(context_, text.at.x, text.at.y);
      cairo_rotate(context_, text.degrees * std::numbers::pi / 180);
      cairo_move_to(context_, -share * extents.x_advance, 0);
      cairo_show_text(context_, shown.c_str());
      cairo_new_path(context_);
    }
    cairo_restore(context_);
  }

  void operator()(const ImageShape& shape) {
    if (shape.image.pixels.empty()) return;
    const Surface pixels = surface_of(shape.image);
    cairo_save(context_);
    cairo_rectangle(context_, shape.x, shape.y, shape.width, shape.height);
    cairo_clip(context_);
    cairo_translate(context_, shape.x, shape.y);
    cairo_scale(context_, shape.width / double(shape.image.width),
                shape.height / double(shape.image.height));
    cairo_set_source_surface(context_, pixels.get(), 0, 0);
    cairo_pattern_t* pattern = cairo_get_source(context_);
    cairo_pattern_set_filter(pattern, shape.smooth ? CAIRO_FILTER_GOOD : CAIRO_FILTER_NEAREST);
    cairo_pattern_set_extend(pattern, CAIRO_EXTEND_PAD);
    cairo_paint(context_);
    cairo_restore(context_);
  }

 private:
  bool use(const Paint& paint) {
    if (!paint.fixed && paint.ink == Ink::kNone) return false;
    const Rgb rgb = light_inks().of(paint);
    cairo_set_source_rgba(context_, rgb.r / 255.0, rgb.g / 255.0, rgb.b / 255.0, paint.opacity);
    return true;
  }

  void fill_and_stroke(const Paint& fill, const Paint& stroke, double width) {
    if (use(fill)) cairo_fill_preserve(context_);
    cairo_set_line_width(context_, width);
    if (use(stroke)) cairo_stroke_preserve(context_);
    cairo_new_path(context_);
  }

  cairo_t* context_;
};

Image image_of(cairo_surface_t* surface, int64_t width, int64_t height) {
  cairo_surface_flush(surface);
  const unsigned char* data = cairo_image_surface_get_data(surface);
  const int stride = cairo_image_surface_get_stride(surface);
  Image image(width, height, 3);
  for (int64_t y = 0; y < height; ++y) {
    const auto* row = reinterpret_cast<const uint32_t*>(data + y * stride);
    for (int64_t x = 0; x < width; ++x) {
      uint8_t* p = image.row(y) + 3 * x;
      p[0] = static_cast<uint8_t>(row[x] >> 16);
      p[1] = static_cast<uint8_t>(row[x] >> 8);
      p[2] = static_cast<uint8_t>(row[x]);
    }
  }
  return image;
}

}  // namespace

void place(Drawing& whole, Drawing part, Point at) {
  const auto move = [&](Point& point) { point = {point.x + at.x, point.y + at.y}; };
  for (Shape& shape : part.shapes) {
    std::visit(
        [&](auto& s) {
          if constexpr (requires { s.points; }) {
            for (Point& point : s.points) move(point);
          } else if constexpr (requires { s.center; }) {
            move(s.center);
          } else if constexpr (requires { s.at; }) {
            move(s.at);
          } else {
            s.x += at.x, s.y += at.y;
          }
        },
        shape);
    whole.shapes.push_back(std::move(shape));
  }
  whole.width = std::max(whole.width, at.x + part.width);
  whole.height = std::max(whole.height, at.y + part.height);
  whole.description += (whole.description.empty() ? "" : " ") + part.description;
}

Image to_image(const Drawing& drawing, double scale) {
  const double width = std::ceil(drawing.width * scale);
  const double height = std::ceil(drawing.height * scale);
  if (!(width >= 1 && height >= 1 && width < 32768 && height < 32768 &&
        width * height <= kMaxPixels)) {
    fail_usage("A drawing of ", drawing.width, " x ", drawing.height, " units at ", scale,
               " pixels a unit: a picture needs 1 to 64 million pixels and sides below 32768.");
  }
  for (const Shape& shape : drawing.shapes) std::visit(FiniteCheck{}, shape);
  const auto columns = static_cast<int64_t>(width), rows = static_cast<int64_t>(height);
  const Surface surface = new_surface(columns, rows);
  const Context context(cairo_create(surface.get()), cairo_destroy);
  const Rgb ground = light_inks().surface;
  cairo_set_source_rgb(context.get(), ground.r / 255.0, ground.g / 255.0, ground.b / 255.0);
  cairo_paint(context.get());
  cairo_scale(context.get(), scale, scale);
  Painter painter(context.get());
  for (const Shape& shape : drawing.shapes) std::visit(painter, shape);
  check(cairo_status(context.get()));
  return image_of(surface.get(), columns, rows);
}

}  // namespace tost
