#include "tost/serve/page.h"

#include "page_files.h"

namespace tost {

HttpResponse page_file(const std::string& path) {
  HttpResponse response;
  if (path == "/page.css") {
    response = {.type = "text/css; charset=utf-8", .body = kPageCss};
  } else if (path == "/page.js") {
    response = {.type = "text/javascript; charset=utf-8", .body = kPageJs};
  } else {
    response = {.type = "text/html; charset=utf-8", .body = kPageHtml};
  }
  response.headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
       "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
       "frame-ancestors 'none'"},
      {"Referrer-Policy", "no-referrer"},
      {"Cache-Control", "no-cache"}};
  return response;
}

}  // namespace tost
