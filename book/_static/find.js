// The search of the book: sections.js holds its sections, this ranks them and quotes them.

(function () {
  "use strict";

  const MOST = 30;
  const REACH = 90; // letters on either side of what was found

  const letters = (text) => text.toLowerCase().replace(/[‐‑–-]/g, " ");

  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

  // What a word is looked for by: its beginning, without the ending of a plural.
  function stem(word) {
    if (word.length < 4) return word;
    if (/(ies|ices)$/.test(word)) return word.replace(/(ies|ices)$/, "");
    if (/(s|x|ch|sh)es$/.test(word)) return word.slice(0, -2);
    return /[^us]s$/.test(word) ? word.slice(0, -1) : word;
  }

  // Finds words that begin like these, one after the other.
  const starts = (words) =>
    new RegExp("(?<![\\p{L}\\p{N}_])" + words.map(escaped).join("[\\p{L}\\p{N}_]* "), "giu");

  // The sections that teach a word of the trade in the query, and the words that are left.
  function taught(words) {
    const query = words.map(stem).join(" ");
    const known = Object.entries(window.BOOK_TERMS || {})
      .map(([name, url]) => ({ name, url, words: letters(name).split(" ").map(stem).join(" ") }))
      .sort((one, other) => other.words.length - one.words.length);
    const begun = query.length > 3 && known.filter((term) => term.words.startsWith(query));
    if (begun && begun.length) return { terms: begun.filter((term) => term.words === query || begun.length < 4), rest: [] };
    let rest = ` ${query} `;
    const terms = known.filter((term) => {
      if (!rest.includes(` ${term.words} `)) return false;
      rest = rest.replace(` ${term.words} `, " ");
      return true;
    });
    return { terms, rest: rest.trim().split(" ").filter(Boolean) };
  }

  function score(section, stems, known) {
    const title = letters(section.title);
    const text = letters(section.text);
    const all = [title, text, letters(section.page), section.code.toLowerCase()].join(" ");
    const holds = (words) => words.every((word) => all.match(starts([word])));
    const teaches = known.terms.some((term) => term.url === section.url) && holds(known.rest);
    if (!teaches && !holds(stems)) return 0;
    let points = teaches ? 1000 : 1;
    for (const word of stems) {
      points += 8 * (title.match(starts([word])) ? 1 : 0);
      points += Math.min((text.match(starts([word])) || []).length, 4);
    }
    if (stems.length > 1) {
      points += title.match(starts(stems)) ? 40 : 0;
      points += 12 * Math.min((text.match(starts(stems)) || []).length, 3);
    }
    return section.reference ? points / 3 : points;
  }

  function quote(section, stems) {
    const text = letters(section.text);
    const wanted = [stems, ...stems.map((word) => [word])];
    const first = wanted.map((words) => text.search(starts(words))).find((at) => at >= 0);
    const middle = first === undefined ? 0 : first;
    let from = Math.max(0, middle - REACH);
    if (from) from = section.text.indexOf(" ", from) + 1;
    let to = Math.min(section.text.length, middle + stems.join(" ").length + REACH);
    if (to < section.text.length) to = section.text.lastIndexOf(" ", to);
    const words = section.text.slice(from, to);
    const line = document.createElement("p");
    line.append(from ? "… " : "");
    const marks = new RegExp(wanted.map((some) => starts(some).source).join("|"), "giu");
    let at = 0;
    for (const match of letters(words).matchAll(marks)) {
      const mark = document.createElement("mark");
      mark.textContent = words.slice(match.index, match.index + match[0].length);
      line.append(words.slice(at, match.index), mark);
      at = match.index + match[0].length;
    }
    line.append(words.slice(at), to < section.text.length ? " …" : "");
    return line;
  }

  function show(query, place) {
    const words = letters(query).trim().split(/\s+/).filter(Boolean);
    const stems = [...new Set(words.map(stem))];
    place.replaceChildren();
    if (!stems.length) return;
    const known = taught(words);
    const found = window.BOOK_SECTIONS.map((section) => [score(section, stems, known), section])
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
      item.append(link, page);
      const names = known.terms.filter((term) => term.url === section.url).map((term) => term.name);
      if (names.length) {
        const label = document.createElement("span");
        label.className = "search-taught";
        label.textContent = "teaches " + names.join(", ");
        item.append(" ", label);
      }
      item.append(quote(section, stems));
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
