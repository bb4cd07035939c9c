// What a link leads to, shown beside it while the mouse or the keyboard is on it: figures, tables,
// formulas, sources, sections. A finger gets no preview, and the link works as ever. Escape closes.

(function () {
  "use strict";

  const WAIT = 120; // milliseconds: a mouse on its way across the page opens nothing
  const LINKS = "a[href]:not(.headerlink, svg a)";
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href).href;
  let article, box, current, timer, index;

  // Previews of other pages come with one script, on first use: a file may load a script, but may
  // not fetch a text.
  function others() {
    index ||= new Promise((done) => {
      const script = document.createElement("script");
      script.src = root + "_static/previews.js";
      script.onload = () => done(window.BOOK_PREVIEWS);
      script.onerror = () => done({});
      document.head.append(script);
    });
    return index;
  }

  function line(name, text) {
    const made = document.createElement("p");
    made.className = name;
    made.textContent = text;
    return made;
  }

  // A copy without what can be clicked, focused or found by its id.
  function copy(target) {
    const copied = target.cloneNode(true);
    copied.querySelectorAll(".headerlink, button, .section-number:empty").forEach((part) => part.remove());
    const all = [copied, ...copied.querySelectorAll("*")];
    for (const part of all) {
      if (!part.closest("svg")) part.removeAttribute("id"); // a drawing refers to its own parts
      ["href", "tabindex", "role", "data-more", "aria-label"].forEach((name) => part.removeAttribute(name));
      if (part.tagName === "IMG") part.loading = "eager";
    }
    return copied;
  }

  function inSight(target) {
    const { top, bottom } = target.getBoundingClientRect();
    return top >= 48 && bottom <= innerHeight;
  }

  // What the link leads to, as nodes; nothing where there is nothing to show.
  async function content(link) {
    if (link.dataset.source) return [line("preview-text", link.dataset.source)];
    const [page, hash] = link.href.split("#");
    if (page === location.href.split("#")[0]) {
      let target = hash && document.getElementById(decodeURIComponent(hash));
      if (target && target.tagName === "SPAN") target = target.closest("section") || target.parentElement;
      if (!target || target.tagName === "DETAILS" || target.contains(link) || inSight(target)) return null;
      if (target.tagName !== "SECTION") return [copy(target)];
      const parts = [target.querySelector(":scope > :is(h1, h2, h3, h4)"), target.querySelector(":scope > p:not(.minutes)")];
      return parts.filter(Boolean).map((part) => (part.tagName === "P" ? copy(part) : line("preview-title", copy(part).textContent)));
    }
    if (!link.href.startsWith(root)) return null;
    const found = (await others())[link.href.slice(root.length)];
    if (!found) return null;
    const parts = [line("preview-title", found.title)];
    if (found.image) parts.push(Object.assign(new Image(), { src: root + found.image, alt: "" }));
    if (found.text) parts.push(line("preview-text", found.text));
    return parts;
  }

  function place(link, x) {
    const lines = [...link.getClientRects()];
    const on = lines.find(({ left, right }) => x >= left && x <= right) || lines[0];
    const { width, height } = box.getBoundingClientRect();
    const left = Math.min(Math.max(12, on.left - 16), innerWidth - width - 12);
    const below = on.bottom + 6;
    const top = below + height <= innerHeight - 8 ? below : Math.max(8, on.top - height - 6);
    Object.assign(box.style, { left: `${left}px`, top: `${top}px`, visibility: "visible" });
  }

  async function show(link, x) {
    clearTimeout(timer);
    if (current === link) return;
    hide();
    current = link;
    if (link.title && link.closest(".bibtex-citation, .citation-list, cite")) {
      link.dataset.source = link.title;
      link.removeAttribute("title"); // or the browser shows it as well
    }
    const parts = await content(link);
    if (!parts || current !== link) return;
    box = document.createElement("div");
    box.id = "book-preview";
    box.className = "preview";
    box.setAttribute("role", "tooltip");
    box.append(...parts);
    box.addEventListener("pointerenter", () => clearTimeout(timer));
    box.addEventListener("pointerleave", () => later(hide));
    article.append(box);
    link.setAttribute("aria-describedby", box.id);
    box.querySelectorAll("img").forEach((image) => (image.onload = () => box && place(link, x)));
    place(link, x);
  }

  function hide() {
    clearTimeout(timer);
    if (current) current.removeAttribute("aria-describedby");
    if (box) box.remove();
    current = box = null;
  }

  function later(what) {
    clearTimeout(timer);
    timer = setTimeout(what, WAIT);
  }

  function start() {
    article = document.querySelector(".bd-article");
    if (!article) return;
    const linkOf = (event) => event.target.closest && event.target.closest(LINKS);
    article.addEventListener("pointerover", (event) => {
      const link = linkOf(event);
      if (link && event.pointerType !== "touch") later(() => show(link, event.clientX));
    });
    article.addEventListener("pointerout", (event) => linkOf(event) && later(hide));
    article.addEventListener("focusin", (event) => {
      const link = linkOf(event);
      if (link && link.matches(":focus-visible")) show(link, -1);
    });
    article.addEventListener("focusout", hide);
    article.addEventListener("click", hide);
    document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
    // The keyboard's preview goes along: the browser scrolls to what has the focus.
    const scrolled = () => {
      if (box && current === document.activeElement) place(current, -1);
      else if (box && !box.matches(":hover")) hide();
    };
    window.addEventListener("scroll", scrolled, { passive: true });
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
