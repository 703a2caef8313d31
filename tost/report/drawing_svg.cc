#include "tost/report/drawing.h"
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

}  // namespace tost
