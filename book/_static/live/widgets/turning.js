// Turning positions: a query and a key, each with one arrow in each of four planes.

(function () {
  "use strict";
  const { kit } = Live;

  const speeds = (width, base) =>
    Array.from({ length: width / 2 }, (_, i) => base ** ((-2 * i) / width));

  // Numbers i and i + K/2 form plane i, as in the package.
  function turned(x, position, base) {
    const half = x.length / 2;
    const out = new Array(x.length);
    speeds(x.length, base).forEach((speed, i) => {
      const [cos, sin] = [Math.cos(position * speed), Math.sin(position * speed)];
      out[i] = x[i] * cos - x[i + half] * sin;
      out[i + half] = x[i + half] * cos + x[i] * sin;
    });
    return out;
  }

  // Sinusoids, added: column 2i the sine, column 2i + 1 the cosine.
  function added(x, position, base) {
    const out = [...x];
    speeds(x.length, base).forEach((speed, i) => {
      out[2 * i] += Math.sin(position * speed);
      out[2 * i + 1] += Math.cos(position * speed);
    });
    return out;
  }

  const dot = (a, b) => a.reduce((sum, x, n) => sum + x * b[n], 0);
  const WAYS = { turned, added };
  const score = (way, query, key, s, t, base) =>
    dot(WAYS[way](query, s, base), WAYS[way](key, t, base));

  // The same two vectors throughout. In each plane the key is 40° from the query.
  const QUERY = [1, 1, 1, 1, 0, 0, 0, 0];
  const KEY = [...new Array(4).fill(Math.cos(0.7)), ...new Array(4).fill(Math.sin(0.7))];

  function draw({ picture, controls, said }) {
    const state = { way: "turned", s: 5, t: 3, both: 0, base: 100 };
    const view = kit.drawing(picture, 340, 172, "Four planes, each with an arrow of query and key");
    const clocks = kit.svg("g", {});
    view.append(clocks,
      kit.text(85, 166, "query, at s", { style: "fill: var(--live-attention)", class: "live-letter" }),
      kit.text(255, 166, "key, at t", { style: "fill: var(--live-head)", class: "live-letter" }));
    const number = kit.number(controls);
    let before = null;
    const position = (name, label, most) => kit.slider(controls, {
      label, min: 0, max: most, step: 1, value: state[name], show: (x) => kit.whole(x),
      input: (x) => {
        state[name] = x;
        update();
      },
    });
    position("s", "position s of the query", 40);
    position("t", "position t of the key", 40);
    position("both", "move both on by", 60);
    kit.choice(controls, {
      label: "positions are", value: "turned",
      options: [["turned", "turned in"], ["added", "added (waves)"]],
      change: (way) => {
        state.way = way;
        before = null;
        update();
      },
    });
    kit.slider(controls, {
      label: "base of the speeds", min: 0, max: 4, step: 1, value: 2,
      show: (x) => kit.whole(10 ** x),
      input: (x) => {
        state.base = 10 ** x;
        update();
      },
    });

    function update() {
      const { way, base } = state;
      const [s, t] = [state.s + state.both, state.t + state.both];
      const [q, k] = [WAYS[way](QUERY, s, base), WAYS[way](KEY, t, base)];
      const pair = (x, i) => (way === "turned" ? [x[i], x[i + 4]] : [x[2 * i], x[2 * i + 1]]);
      clocks.replaceChildren();
      speeds(8, base).forEach((speed, i) => {
        const [cx, cy] = [43 + 85 * i, 62];
        const part = dot(pair(q, i), pair(k, i));
        const hand = (x, colour) => {
          const [dx, dy] = pair(x, i).map((each) => each * (way === "turned" ? 34 : 15));
          return kit.arrow(cx, cy, cx + dx, cy - dy, { style: `stroke: ${colour}; fill: ${colour}` });
        };
        clocks.append(
          kit.svg("circle", { cx, cy, r: 37, class: "axis" }),
          hand(k, "var(--live-head)"), hand(q, "var(--live-attention)"),
          kit.text(cx, 15, `plane ${i}`, { class: "quiet" }),
          kit.text(cx, 122, `${kit.fixed((speed * 180) / Math.PI, speed < 0.1 ? 2 : 0)}° a step`, { class: "quiet" }),
          kit.text(cx, 140, `score ${kit.fixed(part, 2)}`));
      });
      const now = score(way, QUERY, KEY, s, t, base);
      const changed = before === null ? "move a slider" : Math.abs(now - before) < 5e-4
        ? "unchanged by your last move" : `before your last move ${kit.fixed(before)}`;
      number(kit.fixed(now), `score of s = ${s} with t = ${t}, a distance of ${kit.fixed(s - t, 0)}: ${changed}`);
      said(`Score ${kit.fixed(now)} at s ${s}, t ${t}: ${changed}.`);
      before = now;
    }
    update();
  }

  Live.widget("turning", { compute: { turned, added, score }, draw });
})();
