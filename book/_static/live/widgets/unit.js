// A hidden unit as a key and a value: when does it open?

(function () {
  "use strict";
  const { kit } = Live;

  // What an MLP with one unit adds: its value, as far as the unit opens.
  function unit(x, key, offset, value) {
    const before = x.reduce((sum, each, n) => sum + each * key[n], offset);
    const opens = Math.max(0, before);
    return { before, opens, added: value.map((each) => opens * each) };
  }

  const TEXTS = [["had a", [0, 0]], ["said the", [1, 0]], ["a good", [0, 1]], ["said good", [1, 1]]];
  const place = ([x, y]) => [110 + 130 * x, 190 - 130 * y];

  function draw({ picture, controls, said }) {
    const state = { key: [0.5, 0.5], offset: 0.5, only: 3 };
    const view = kit.drawing(picture, 340, 260, "The plane of said and good, with the line where the unit opens");
    const ground = kit.svg("g", {});
    view.append(kit.svg("clipPath", { id: "live-unit" }, kit.svg("rect", { x: 45, y: 10, width: 260, height: 225 })), ground);
    const number = kit.number(controls);
    kit.choice(controls, {
      label: "the unit should open only after", value: 3,
      options: TEXTS.map(([words], n) => [n, words]).filter(([n]) => n > 0),
      change: (n) => {
        state.only = Number(n);
        update();
      },
    });
    const rows = kit.bars(controls, TEXTS.map(([words]) => words), "How far the unit opens");
    const slider = (label, start, change) => kit.slider(controls, {
      label, min: -2, max: 2, step: 0.25, value: start,
      input: (x) => {
        change(x);
        update();
      },
    });
    slider("key: weight of said", 0.5, (x) => (state.key[0] = x));
    slider("key: weight of good", 0.5, (x) => (state.key[1] = x));
    slider("offset", 0.5, (x) => (state.offset = x));

    // The part of a wide square in which the sum is positive.
    function opened() {
      const corners = [[-2, -2], [3, -2], [3, 3], [-2, 3]];
      const sum = (x) => unit(x, state.key, state.offset, []).before;
      const out = [];
      corners.forEach((a, n) => {
        const b = corners[(n + 1) % 4];
        if (sum(a) > 0) out.push(a);
        if (sum(a) > 0 !== sum(b) > 0) {
          const share = sum(a) / (sum(a) - sum(b));
          out.push(a.map((x, i) => x + share * (b[i] - x)));
        }
      });
      return out;
    }

    function update() {
      const { key, offset, only } = state;
      const results = TEXTS.map(([, x]) => unit(x, key, offset, [1]));
      ground.replaceChildren(
        kit.svg("polygon", {
          points: opened().map((p) => place(p).join(",")).join(" "), "clip-path": "url(#live-unit)",
          style: "fill: var(--live-mlp); fill-opacity: 0.16; stroke: var(--live-mlp); stroke-width: 1.5",
        }),
        kit.svg("path", { class: "axis", d: "M45 10V235H305" }),
        kit.text(175, 253, "said", { class: "quiet" }),
        kit.text(40, 125, "good", { class: "quiet end" }));
      TEXTS.forEach(([words, x], n) => {
        const [cx, cy] = place(x);
        const open = results[n].opens > 0;
        ground.append(
          kit.svg("circle", {
            cx, cy, r: 7,
            style: `fill: ${open ? "var(--live-mlp)" : "var(--pst-color-background)"}; stroke: var(--live-mlp); stroke-width: 2`,
          }),
          kit.text(cx, cy - 13, words, { class: n === only ? "live-letter" : null }));
      });
      rows(results.map(({ before, opens }, n) => ({
        share: opens / 3, colour: "var(--live-mlp)", marked: n === only,
        text: `${kit.fixed(before)} → ${kit.fixed(opens)}`,
      })));
      const right = results.filter(({ opens }, n) => opens > 0 === (n === only)).length;
      const note = right === 4 ? "solved: the line cuts off this one text" : "texts where it is right; move the line";
      number(`${right} of 4`, `${note}. Beside each: its sum → its ReLU, which multiplies the value`);
      said(`Right at ${right} of 4 texts. Open after ` +
        `${TEXTS.filter((_, n) => results[n].opens > 0).map(([words]) => words).join(", ") || "none"}.`);
    }
    update();
  }

  Live.widget("unit", { compute: { unit }, draw });
})();
