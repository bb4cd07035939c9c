// Where one is in a page: a thin bar at its top, the section marked and unfolded in the contents, and
// "14.6, 6 of 9" beside the word Contents. (The theme's own mark is lost when one jumps.)

(function () {
  "use strict";

  const LONG = 2.5; // screens: on a shorter page everybody knows

  function start() {
    const page = document.documentElement;
    const sections = [...document.querySelectorAll(".bd-article > section > section")];
    const places = [...document.querySelectorAll(".bd-sidebar-secondary .page-toc a[href^='#']")]
      .map((link) => ({ link, target: document.getElementById(decodeURIComponent(link.hash.slice(1))) }))
      .filter(({ target }) => target);

    const bar = document.createElement("div");
    bar.className = "progress-line";
    bar.setAttribute("aria-hidden", "true");
    document.body.append(bar);
    const label = document.createElement("span");
    label.className = "progress-place";
    label.setAttribute("aria-hidden", "true"); // or it would be part of the contents' name
    const heading = document.querySelector(".bd-sidebar-secondary .onthispage");
    if (heading) heading.append(label);

    let here;
    function mark(link) {
      if (link === here) return;
      if (here) here.removeAttribute("aria-current");
      document.querySelectorAll(".page-toc .here").forEach((entry) => entry.classList.remove("here"));
      here = link;
      if (!link) return;
      link.setAttribute("aria-current", "location");
      for (let entry = link.closest("li"); entry; entry = entry.parentElement.closest("li")) entry.classList.add("here");
    }

    function show() {
      const line = 0.4 * innerHeight;
      const above = (section) => section.getBoundingClientRect().top <= line;
      const long = page.scrollHeight > LONG * innerHeight;
      bar.style.transform = `scaleX(${long ? Math.min(1, scrollY / (page.scrollHeight - innerHeight)) : 0})`;
      mark((places.filter(({ target }) => above(target)).pop() || {}).link);
      const at = sections.filter(above).length;
      const number = at && sections[at - 1].querySelector(".section-number");
      const name = number ? number.textContent.trim().replace(/\.$/, "") + ", " : "";
      const text = at && long ? `${name}${at} of ${sections.length}` : "";
      if (label.textContent !== text) label.textContent = text;
    }

    let asked = false;
    function soon() {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        show();
      });
    }
    window.addEventListener("scroll", soon, { passive: true });
    window.addEventListener("resize", soon);
    new ResizeObserver(soon).observe(document.body);
    show();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
