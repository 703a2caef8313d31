// The page for browsers, web/serve.html as one file that loads no others.
#include <random>
#include <string>
#include <string_view>

#include "serve_page.h"  // web/serve.html, made by the build
#include "tost/base/error.h"
#include "tost/serve/app.h"

namespace tost {
namespace {

void page(const Call& call) {
  // The browser only runs scripts and styles with the nonce of this answer.
  constexpr std::string_view kMark = "@nonce@";
  std::random_device system;
  const std::string nonce = cat(system(), '-', system(), '-', system(), '-', system());
  std::string text(kServePage);
  for (size_t at = 0; (at = text.find(kMark, at)) != std::string::npos; at += nonce.size()) {
    text.replace(at, kMark.size(), nonce);
  }
  call.exchange->answer(
      {.type = "text/html; charset=utf-8",
       .body = std::move(text),
       .headers = {
           {"Content-Security-Policy",
            cat("default-src 'none'; script-src 'nonce-", nonce, "'; style-src 'nonce-", nonce,
                "'; connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; "
                "form-action 'none'; frame-ancestors 'none'")},
           {"Referrer-Policy", "no-referrer"},
           {"Cache-Control", "no-cache"}}});
}

}  // namespace

Routes page_routes() {
  return {{"GET", "/", page, {}, true}};
}

}  // namespace tost
