// What all widgets share: a place in the page, controls, drawing, numbers.
//
// Classic deferred scripts with one name, `Live`: Chromium refuses ES modules from file://, where
// the book must work too. A widget calls Live.widget(name, { compute, draw }). `compute` holds
// functions of numbers alone, which tests compare with the package. `draw` fills its figure.

(function () {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const here = document.currentScript.src;
  const Live = (window.Live = { compute: {} });

  // ------------------------------------------------------------------ elements

  function filled(element, attributes, parts) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...parts.filter((part) => part !== null && part !== undefined));
    return element;
  }

  const el = (tag, attributes, ...parts) =>
    filled(document.createElement(tag), attributes, parts);
  const svg = (tag, attributes, ...parts) =>
    filled(document.createElementNS(SVG, tag), attributes, parts);

  // ------------------------------------------------------------------ numbers

  // A minus sign, and so many decimals; never "−0.00".
  function fixed(x, decimals = 2) {
    if (!Number.isFinite(x)) return "beyond all numbers";
    const text = Math.abs(x).toFixed(decimals);
    return (x < 0 && Number(text) !== 0 ? "−" : "") + text;
  }

  const whole = (x) => Math.round(x).toLocaleString("en-US");

  // 1.4e9 as "1.4 billion".
  function counted(x) {
    const names = [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"], [1e3, "thousand"]];
    for (const [size, name] of names) {
      if (x >= 0.9995 * size) return `${(x / size).toPrecision(3)} ${name}`;
    }
    return whole(x);
  }

  // Powers of two, as memory is counted.
  function bytes(x) {
    const names = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let n = 0;
    while (x >= 1024 && n < names.length - 1) {
      x /= 1024;
      n += 1;
    }
    return `${x >= 100 || n === 0 ? whole(x) : Number(x.toPrecision(3))} ${names[n]}`;
  }

  // The same numbers for the same seed, everywhere (mulberry32, and Box and Muller's normals).
  function random(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = state;
      t = Math.imul(t ^ (t >>> 15), t | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  function normals(n, seed) {
    const uniform = random(seed);
    return Array.from({ length: n }, () =>
      Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform()));
  }

  // ------------------------------------------------------------------ controls

  let n_controls = 0;

  // A slider with its name and its value. `show` says the value, `input` is told of it.
  function slider(parent, { label, min, max, step, value, show = (x) => fixed(x), input }) {
    const id = `live-control-${(n_controls += 1)}`;
    const range = el("input", { type: "range", id, min, max, step });
    const said = el("output", { for: id });
    const control = {
      get value() {
        return Number(range.value);
      },
      set value(x) {
        range.value = x;
        tell();
      },
      range,
    };
    function tell() {
      said.textContent = show(control.value);
      range.setAttribute("aria-valuetext", said.textContent);
    }
    range.value = value;
    tell();
    range.addEventListener("input", () => {
      tell();
      input(control.value);
    });
    parent.append(el("div", { class: "live-slider" },
      el("label", { for: id }, label), said, range));
    return control;
  }

  // One of several, as buttons side by side; the arrow keys move between them.
  function choice(parent, { label, options, value, change }) {
    const name = `live-control-${(n_controls += 1)}`;
    const box = el("fieldset", { class: "live-choice" }, el("legend", {}, label));
    const row = el("div", { class: "live-options" });
    const control = { value };
    for (const [key, words] of options) {
      const radio = el("input", { type: "radio", name, value: key });
      radio.checked = key === value;
      radio.addEventListener("change", () => {
        control.value = key;
        change(key);
      });
      row.append(el("label", {}, radio, el("span", {}, words)));
    }
    box.append(row);
    parent.append(box);
    return control;
  }

  // The number that matters, and what it is.
  function number(parent) {
    const value = el("b", {});
    const meaning = el("span", {});
    parent.append(el("p", { class: "live-number" }, value, " ", meaning));
    return (x, words) => {
      value.textContent = x;
      meaning.textContent = words;
    };
  }

  // Rows of a name, a bar and a number. `rows` are { share, text, colour, marked }.
  function bars(parent, names, label) {
    const list = el("div", { class: "live-bars", role: "group", "aria-label": label });
    const made = names.map((name) => {
      const bar = el("i", {});
      const text = el("span", { class: "live-bar-number" });
      const word = el("span", { class: "live-bar-name" }, name);
      const row = el("div", { class: "live-bar" }, word, el("span", { class: "live-track" }, bar), text);
      list.append(row);
      return { row, bar, text };
    });
    parent.append(list);
    return (rows) => rows.forEach(({ share, text, colour, marked }, n) => {
      made[n].bar.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
      made[n].bar.style.background = colour || "var(--live-attention)";
      made[n].text.textContent = text;
      made[n].row.classList.toggle("marked", Boolean(marked));
    });
  }

  // ------------------------------------------------------------------ drawing

  // A drawing of so many units. On a phone one unit is about a pixel, and labels have eleven.
  function drawing(parent, width, height, label) {
    const view = svg("svg", {
      class: "live-drawing", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label,
    });
    parent.append(view);
    return view;
  }

  const text = (x, y, words, attributes) => svg("text", { x, y, ...attributes }, words);

  function arrow(x1, y1, x2, y2, attributes) {
    const [dx, dy] = [x2 - x1, y2 - y1];
    const length = Math.hypot(dx, dy) || 1;
    const head = Math.min(8, length);
    const [ux, uy] = [dx / length, dy / length];
    const [bx, by] = [x2 - head * ux, y2 - head * uy];
    const d = `M${x1} ${y1}L${bx} ${by}M${x2} ${y2}L${bx - 0.45 * head * uy} ${by + 0.45 * head * ux}` +
      `L${bx + 0.45 * head * uy} ${by - 0.45 * head * ux}Z`;
    return svg("path", { d, ...attributes, class: `live-arrow ${(attributes || {}).class || ""}` });
  }

  // A point that is dragged by pointer, or moved by the arrow keys. `place` turns values into units
  // of the drawing, `value` turns units into values; `move` is told of the values.
  function handle(view, { name, at, place, value, limit, step, show, move, colour, letter }) {
    const dot = svg("circle", { r: 7, style: `fill: ${colour}` });
    const target = svg("circle", { r: 24, class: "live-target" });
    const mark = letter ? text(0, -11, letter, { class: "live-letter", style: `fill: ${colour}` }) : null;
    const group = svg("g", {
      class: "live-handle", tabindex: 0, role: "slider", "aria-label": name,
      "aria-roledescription": "point, moved by the arrow keys",
      "aria-valuemin": limit[0], "aria-valuemax": limit[1],
    }, target, dot, mark);
    let now = at;
    const within = (x) => Math.min(limit[1], Math.max(limit[0], x));
    const control = {
      set(next, tell = true) {
        now = next.map((x) => within(Math.round(x / step) * step));
        const [x, y] = place(now);
        group.setAttribute("transform", `translate(${x} ${y})`);
        group.setAttribute("aria-valuenow", fixed(now[0]).replace("−", "-"));
        group.setAttribute("aria-valuetext", show(now));
        if (tell) move(now);
      },
      group,
    };
    group.addEventListener("keydown", (event) => {
      const by = event.shiftKey ? 5 * step : step;
      const ways = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, by], ArrowDown: [0, -by] };
      const way = ways[event.key];
      if (!way) return;
      event.preventDefault();
      control.set(now.map((x, n) => x + way[n]));
    });
    const units = (event) => {
      const box = view.getBoundingClientRect();
      const scale = view.viewBox.baseVal.width / box.width;
      return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    };
    group.addEventListener("pointerdown", (event) => {
      group.setPointerCapture(event.pointerId);
      group.focus({ preventScroll: true });
      event.preventDefault();
    });
    group.addEventListener("pointermove", (event) => {
      if (group.hasPointerCapture(event.pointerId)) control.set(value(units(event)));
    });
    view.append(group);
    view.setAttribute("role", "group"); // no longer a mere picture
    control.set(at, false);
    return control;
  }

  // ------------------------------------------------------------------ a widget in its figure

  function mount(figure, draw) {
    const body = el("div", { class: "live-body" });
    const picture = el("div", { class: "live-picture" });
    const controls = el("div", { class: "live-controls" });
    body.append(picture, controls);
    const region = figure.querySelector(".live-said");
    figure.insertBefore(body, region);
    let waiting = 0;
    let first = true;
    // What changed, once the hand rests: a reader of screens is not told of every step.
    const said = (words) => {
      clearTimeout(waiting);
      if (first) return void (first = false);
      waiting = setTimeout(() => (region.textContent = words), 250);
    };
    draw({ figure, picture, controls, said });
    figure.dataset.playing = "";
  }

  const looks = new Promise((done) => {
    const href = here.replace("widgets/kit.js", "widgets.css");
    const link = el("link", { rel: "stylesheet", href });
    link.onload = link.onerror = done;
    document.head.append(link);
  });

  Live.kit = {
    el, svg, fixed, whole, counted, bytes, random, normals, slider, choice, number, bars, drawing,
    text, arrow, handle,
    // Whether things may move by themselves.
    still: () => matchMedia("(prefers-reduced-motion: reduce)").matches,
  };

  Live.widget = (name, { compute, draw }) => {
    Live.compute[name] = compute;
    looks.then(() =>
      document.querySelectorAll(`figure.live[data-widget="${name}"]`).forEach((figure) =>
        mount(figure, draw)));
  };
})();
