#!/usr/bin/env python3
"""Builds the site of the documentation into build/site: pages as they lie in the tree, dead links refused.

usage: site.py [--check]; --check looks at the links alone. Building needs mkdocs, which `make site` installs into .venv.
Links to sources, which are not pages, become code.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "site-pages"
LINK = re.compile(r"\[([^\]]*)\]\(([^)#]*)(#[^)]*)?\)")


def page_of(target):
    return PAGES / ("index.md" if target == ROOT / "README.md" else target.relative_to(ROOT))


def anchors(page):
    """Of the headings of a page, as mkdocs and GitHub name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {"#" + re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def links_of_site(text, source, page):
    def replace(match):
        words, link, anchor = match.group(1), match.group(2), match.group(3) or ""
        if "://" in link:
            return match.group(0)
        target = (source.parent / link).resolve() if link else source
        if not target.exists() or target.suffix == ".md" and anchor and anchor not in anchors(target):
            sys.exit(f"{source.relative_to(ROOT)} links to {link}{anchor}, which is not there.")
        if target.suffix not in {".md", ".png", ".svg"}:
            return f"{words} (`{target.relative_to(ROOT)}`)"
        up = "../" * len(page.parent.relative_to(PAGES).parts)
        return f"[{words}]({up}{page_of(target).relative_to(PAGES)}{anchor})"

    return LINK.sub(replace, text)


def lay_out():
    shutil.rmtree(PAGES, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "*.md", "docs"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        source = ROOT / name
        page = page_of(source)
        page.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            page.write_text(links_of_site(source.read_text(), source, page))
        else:
            shutil.copyfile(source, page)


if __name__ == "__main__":
    lay_out()
    if "--check" in sys.argv:
        sys.exit(print("every link leads somewhere"))
    sys.exit(subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"], cwd=ROOT).returncode)
