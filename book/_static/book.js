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

  function start() {
    watch();
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
