#include "tost/serve/page.h"

#include <random>
#include <string>
#include <string_view>

#include "serve_page.h"  // web/serve.html, made by the build
#include "tost/base/error.h"

namespace tost {

HttpResponse start_page() {
  // Makes the browser run only scripts and styles with the nonce of this answer.
  constexpr std::string_view kMark = "@nonce@";
  std::random_device system;
  const std::string nonce = cat(system(), '-', system(), '-', system(), '-', system());
  std::string page(kServePage);
  for (size_t at = 0; (at = page.find(kMark, at)) != std::string::npos; at += nonce.size()) {
    page.replace(at, kMark.size(), nonce);
  }
  return {.type = "text/html; charset=utf-8",
          .body = std::move(page),
          .headers = {
              {"Content-Security-Policy",
               cat("default-src 'none'; script-src 'nonce-", nonce, "'; style-src 'nonce-", nonce,
                   "'; connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; "
                   "form-action 'none'; frame-ancestors 'none'")},
              {"Referrer-Policy", "no-referrer"},
              {"Cache-Control", "no-cache"}}};
}

}  // namespace tost
