// What the pages do beyond reading. Everything is readable without it.

(function () {
  "use strict";

  // Boxes that scroll sideways say so: the edge fades where something is hidden (book.css), and
  // the keyboard can reach them.
  const BOXES =
    ".bd-article pre, .bd-article div.math, .bd-article mjx-container[display='true'], " +
    ".bd-article .pst-scrollable-table-container, .bd-article div.output.text_html, " +
    ".bd-article div.output.text_html > div";
  const KINDS = [
    ["div.math, mjx-container", "Formula"],
    ["pre", "Code"],
    ["*", "Table"],
  ];

  function mark(box) {
    const hidden = box.scrollWidth - box.clientWidth;
    if (hidden <= 1) {
      if (box.dataset.more === undefined) return;
      delete box.dataset.more;
      ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
      return;
    }
    const left = box.scrollLeft > 2;
    const right = box.scrollLeft < hidden - 2;
    if (box.dataset.more === undefined) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      const kind = KINDS.find(([selector]) => box.matches(selector))[1];
      box.setAttribute("aria-label", kind + ", scrolls sideways");
      box.addEventListener("scroll", () => mark(box), { passive: true });
    }
    box.dataset.more = left && right ? "both" : left ? "left" : "right";
  }

  const sizes = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));

  function watch() {
    document.querySelectorAll(BOXES).forEach((box) => {
      sizes.observe(box);
      mark(box);
    });
  }

  // A number and its error stay on one line; the table scrolls instead.
  function hold() {
    document.querySelectorAll(".bd-article td").forEach((cell) => {
      if (/^\S+ (±|\+-) \S+$/.test(cell.textContent.trim())) cell.style.whiteSpace = "nowrap";
    });
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
    opened = [...document.querySelectorAll("details.solution:not([open])")];
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
    hold();
    watch();
    narrow();
    open();
    window.addEventListener("hashchange", open);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  // Formulas get their width late.
  window.addEventListener("load", () => {
    const typeset = window.MathJax && window.MathJax.startup && window.MathJax.startup.promise;
    if (typeset) typeset.then(watch);
  });
})();
