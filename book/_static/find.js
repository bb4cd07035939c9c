// The search of the book: sections.js holds its sections, this ranks them and quotes them.

(function () {
  "use strict";

  const MOST = 30;
  const REACH = 90; // letters on either side of what was found

  const letters = (text) => text.toLowerCase().replace(/[‐‑–-]/g, " ");

  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const starts = (term) => new RegExp("(?<![\\p{L}\\p{N}_])" + escaped(term), "gu");

  function score(section, terms, phrase) {
    const title = letters(section.title);
    const text = letters(section.text);
    const all = [title, text, letters(section.page), section.code.toLowerCase()].join(" ");
    if (!terms.every((term) => all.match(starts(term)))) return 0;
    let points = 1;
    for (const term of terms) {
      points += 8 * (title.match(starts(term)) ? 1 : 0);
      points += Math.min((text.match(starts(term)) || []).length, 4);
    }
    if (terms.length > 1) {
      points += title.match(starts(phrase)) ? 40 : 0;
      points += 12 * Math.min((text.match(starts(phrase)) || []).length, 3);
    }
    return section.reference ? points / 3 : points;
  }

  function quote(section, terms, phrase) {
    const text = letters(section.text);
    const first = [phrase, ...terms].map((term) => text.search(starts(term))).find((at) => at >= 0);
    const middle = first === undefined ? 0 : first;
    let from = Math.max(0, middle - REACH);
    if (from) from = section.text.indexOf(" ", from) + 1;
    let to = Math.min(section.text.length, middle + phrase.length + REACH);
    if (to < section.text.length) to = section.text.lastIndexOf(" ", to);
    const words = section.text.slice(from, to);
    const line = document.createElement("p");
    line.append(from ? "… " : "");
    const marks = new RegExp("(?<![\\p{L}\\p{N}_])(" + [phrase, ...terms].map(escaped).join("|") + ")", "giu");
    let at = 0;
    for (const match of words.matchAll(marks)) {
      const mark = document.createElement("mark");
      mark.textContent = match[0];
      line.append(words.slice(at, match.index), mark);
      at = match.index + match[0].length;
    }
    line.append(words.slice(at), to < section.text.length ? " …" : "");
    return line;
  }

  function show(query, place) {
    const phrase = letters(query).trim().replace(/\s+/g, " ");
    const terms = [...new Set(phrase.split(" "))].filter(Boolean);
    place.replaceChildren();
    if (!terms.length) return;
    const found = window.BOOK_SECTIONS.map((section) => [score(section, terms, phrase), section])
      .filter(([points]) => points > 0)
      .sort((one, other) => other[0] - one[0]);
    const count = document.createElement("p");
    count.className = "search-count";
    count.setAttribute("role", "status");
    const number = found.length;
    count.textContent = number
      ? number + (number === 1 ? " section" : " sections") + (number > MOST ? ", the first " + MOST : "")
      : "No section has all of these words.";
    const list = document.createElement("ol");
    list.className = "search-found";
    for (const [, section] of found.slice(0, MOST)) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = section.url;
      link.textContent = section.title || section.page;
      const page = document.createElement("span");
      page.textContent = section.title === section.page ? "" : section.page;
      item.append(link, page, quote(section, terms, phrase));
      list.append(item);
    }
    place.append(count, list);
  }

  function start() {
    const place = document.getElementById("search-results");
    const field = document.querySelector("main input[name=q]") || document.querySelector("input[name=q]");
    if (!place || !field || !window.BOOK_SECTIONS) return;
    field.value = new URLSearchParams(location.search).get("q") || "";
    field.addEventListener("input", () => show(field.value, place));
    show(field.value, place);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
