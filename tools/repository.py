"""Sets the repository's public address everywhere that it is written.

    python tools/repository.py https://github.com/you/decoder-only
    python tools/repository.py --if-placeholder https://github.com/you/decoder-only

_config.yml holds the address; the first cells of the notebooks, the README and pyproject.toml
repeat it, as do links derived from it (Colab, GitHub Pages). The second form changes nothing where
an address was set already; a workflow runs it on every push, so that a fork sets its own.
"""

import re
import subprocess
import sys
from pathlib import Path

import first_cell
import notebooks

ROOT = first_cell.ROOT


def derived(url: str) -> list[str]:
    """The address and the forms in which it occurs in links, the longest first."""
    github = re.fullmatch(r"https://github\.com/([^/]+)/([^/]+)", url)
    if not github:
        return [url]
    owner, name = github.groups()
    return [
        f"https://colab.research.google.com/github/{owner}/{name}",
        f"https://{owner}.github.io/{name}",
        url,
    ]


def set_address(new: str, root: Path = ROOT) -> list[str]:
    """Replaces the old address by the new one; returns the files that changed."""
    old = first_cell.repository_url(root)
    old_forms, new_forms = derived(old), derived(new)
    if len(new_forms) < len(
        old_forms
    ):  # not on GitHub: links to Colab and Pages stay as they are
        old_forms = [old]
    changed = []
    files = [root / "_config.yml", root / "README.md", root / "pyproject.toml"]
    for path in [
        *files,
        *sorted((root / "book").glob("*.md")),
        *notebooks.every(root),
        *notebooks.workbooks(root),
    ]:
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        replaced = text
        for before, after in zip(old_forms, new_forms[-len(old_forms) :], strict=True):
            # Not within a longer name: decoder-only is not decoder-only-2.
            replaced = re.sub(
                re.escape(before) + r"(?![\w-])", lambda _, to=after: to, replaced
            )
        if replaced != text:
            path.write_text(replaced, encoding="utf-8")
            changed.append(path.relative_to(root).as_posix())
    return changed


def address_of_clone(root: Path = ROOT) -> str | None:
    """The address that a clone came from, where that is on GitHub."""
    asked = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True)
    except FileNotFoundError:  # no git
        return None
    kinds = r"(?:https://(?:[^@/]+@)?|ssh://git@|git@)github\.com[/:]"
    found = re.fullmatch(kinds + r"([\w.-]+/[\w.-]+?)(?:\.git)?/?\n", done.stdout)
    return f"https://github.com/{found[1]}" if found else None


def address_of_book(root: Path = ROOT) -> str:
    """What the pages link to: the address that was set, or else the clone's own."""
    url = first_cell.repository_url(root)
    return (address_of_clone(root) or url) if url == first_cell.PLACEHOLDER else url


def main() -> None:
    *flags, url = sys.argv[1:] or [""]
    url = url.strip().removesuffix("/").removesuffix(".git")
    if flags not in ([], ["--if-placeholder"]) or not re.fullmatch(
        r"(https?|file)://[^\s\"'\\]+", url
    ):
        sys.exit(
            f"decoder-only: {url!r} is no address; for example "
            "make repository URL=https://github.com/you/decoder-only"
        )
    if flags and first_cell.repository_url() != first_cell.PLACEHOLDER:
        return
    changed = set_address(url)
    print(f"The public address is {url}; changed: {', '.join(changed) or 'nothing'}.")


if __name__ == "__main__":
    main()
