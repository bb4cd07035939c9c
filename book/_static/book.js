// What the pages do beyond reading. Everything is readable without it.

(function () {
  "use strict";

  // Boxes that scroll sideways say so: the edge fades where something is hidden (book.css), and
  // the keyboard can reach them.
  const BOXES =
    ".bd-article pre, .bd-article div.math > .formula, " +
    ".bd-article div:has(> table), .bd-article div.output.text_html";
  const KINDS = [
    [".formula", "Formula"],
    ["pre", "Code"],
    ["*", "Table"],
  ];

  const seen = (box) => ({
    box,
    hidden: box.scrollWidth - box.clientWidth,
    at: box.scrollLeft,
  });

  function mark({ box, hidden, at }) {
    if (hidden <= 1) {
      if (box.dataset.more === undefined) return;
      delete box.dataset.more;
      ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
      return;
    }
    const left = at > 2;
    const right = at < hidden - 2;
    // The fade is no wider than what it hides.
    box.style.setProperty("--hidden-left", at + "px");
    box.style.setProperty("--hidden-right", hidden - at + "px");
    if (box.dataset.more === undefined) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      const kind = KINDS.find(([selector]) => box.matches(selector))[1];
      box.setAttribute("aria-label", kind + ", scrolls sideways");
      box.addEventListener("scroll", () => mark(seen(box)), { passive: true });
    }
    box.dataset.more = left && right ? "both" : left ? "left" : "right";
  }

  // All are measured before any is marked, so that the page is laid out once. A formula keeps its
  // box and changes its width when its font comes, so that the formula itself is watched too.
  const sizes = new ResizeObserver((entries) =>
    [...new Set(entries.map((entry) => entry.target.closest(BOXES)))].map(seen).forEach(mark));

  function watch() {
    document.querySelectorAll(BOXES).forEach((box) => sizes.observe(box));
    document.querySelectorAll(".formula > math").forEach((formula) => sizes.observe(formula));
  }

  // A fold opens when a link leads into it, and on paper.
  function open() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let fold = target; fold; fold = fold.parentElement) {
      if (fold.tagName === "DETAILS" && !fold.open) {
        fold.open = true;
        target.scrollIntoView();
      }
    }
  }

  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll(".bd-article details:not(.hide, .rest, [open])")];
    opened.forEach((fold) => (fold.open = true));
  });
  window.addEventListener("afterprint", () => opened.forEach((fold) => (fold.open = false)));

  // The list of claims can be narrowed to one verdict.
  function narrow() {
    const items = [...document.querySelectorAll(".claims-list > li")];
    const after = document.querySelector(".claims-summary");
    if (!after) return;
    const verdicts = new Map();
    for (const item of items) {
      const pill = item.querySelector(".verdict");
      const same = verdicts.get(pill.textContent) || { pill, items: [] };
      same.items.push(item);
      verdicts.set(pill.textContent, same);
    }
    const bar = document.createElement("div");
    bar.className = "claims-filter";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Show claims by verdict");
    const choose = (button, shown) => {
      bar.querySelectorAll("button").forEach((other) =>
        other.setAttribute("aria-pressed", String(other === button)));
      items.forEach((item) => (item.hidden = !shown.includes(item)));
      document.querySelectorAll("section").forEach((section) => {
        const list = section.querySelector(":scope > .claims-list");
        if (list) section.hidden = ![...list.children].some((item) => !item.hidden);
      });
    };
    const add = (name, className, shown) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = className;
      button.textContent = name + " " + shown.length;
      button.setAttribute("aria-pressed", String(shown === items));
      button.addEventListener("click", () => choose(button, shown));
      bar.append(button);
    };
    add("All", "verdict", items);
    verdicts.forEach(({ pill, items: some }, name) => add(name, pill.className, some));
    after.after(bar);
  }

  // A figure opens at the window's full size: by a click on it, or by its button.
  function enlarge() {
    const figures = [...document.querySelectorAll(".bd-article figure")].filter((figure) =>
      figure.querySelector(":scope > svg.drawing"));
    if (!figures.length) return;
    const dialog = document.createElement("dialog");
    dialog.className = "enlarged";
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
    document.body.append(dialog);
    for (const figure of figures) {
      const number = figure.querySelector(".caption-number");
      const name = number ? number.textContent.trim() : "the figure";
      const open = () => {
        // Names within the copy are its own: what is hidden in the page cannot be referred to.
        const drawing = figure.querySelector("svg.drawing").outerHTML
          .replace(/(\bid="|url\(#|\bhref="#)/g, "$1big-").replace("drawing wide", "drawing");
        const caption = figure.querySelector("figcaption");
        dialog.setAttribute("aria-label", name);
        dialog.innerHTML = "<button type='button' autofocus>Close</button>" + drawing;
        if (caption) dialog.append(caption.cloneNode(true));
        dialog.querySelectorAll("figcaption [id]").forEach((part) => part.removeAttribute("id"));
        dialog.querySelector("button").addEventListener("click", () => dialog.close());
        dialog.showModal();
      };
      const button = document.createElement("button");
      button.type = "button";
      button.className = "enlarge";
      button.textContent = "Enlarge";
      button.setAttribute("aria-label", "Enlarge " + name);
      button.addEventListener("click", open);
      figure.prepend(button);
      figure.querySelectorAll(":scope > svg.drawing").forEach((drawing) =>
        drawing.addEventListener("click", () => {
          if (!getSelection().toString()) open();
        }));
    }
  }

  function start() {
    enlarge();
    watch();
    narrow();
    open();
    window.addEventListener("hashchange", open);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();

  // A formula in what is copied becomes its TeX, not loose letters one below the other.
  document.addEventListener("copy", (event) => {
    const chosen = getSelection();
    if (!chosen.rangeCount) return;
    const part = document.createElement("div");
    part.append(chosen.getRangeAt(0).cloneContents());
    const formulas = part.querySelectorAll("math");
    if (!formulas.length) return;
    formulas.forEach((formula) => {
      const dollars = formula.getAttribute("display") === "block" ? "$$" : "$";
      formula.replaceWith(dollars + formula.dataset.tex + dollars);
    });
    document.body.append(part); // only what is laid out has lines
    event.clipboardData.setData("text/plain", part.innerText);
    event.clipboardData.setData("text/html", part.innerHTML);
    part.remove();
    event.preventDefault();
  });
})();
