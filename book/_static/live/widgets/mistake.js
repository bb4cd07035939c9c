// A mistake to find: nine models, each with one mistake or none, and five checks of each.
//
// `tools/widget_mistakes.py` writes the numbers, from the laboratory's mistakes and the stored trial.

(function () {
  "use strict";
  const { kit } = Live;

  const FOUND = {
    "no mistake": {"losses": [[6.9, 0.75, 0.019, 0.0054], [7.0, 0.8, 0.02, 0.0056], [6.9, 0.73, 0.019, 0.0054]], "recited": [1.0, 1.0, 1.0], "map": "0001 0003 0007 000f 001f 003f 007f 00ff 01ff 03ff 07ff 0fff 1fff 3fff 7fff ffff", "apart": true, "places": true},
    "no mask": {"losses": [[6.9, 0.76, 0.019, 0.0055], [7.0, 0.82, 0.019, 0.0055], [6.9, 0.75, 0.019, 0.0054]], "recited": [1.0, 1.0, 1.0], "map": "ffff ffff ffff ffff ffff ffff ffff ffff ffff ffff ffff ffff ffff ffff ffff ffff", "apart": true, "places": true},
    "merged untransposed": {"losses": [[6.9, 0.65, 0.019, 0.0056], [7.0, 0.72, 0.019, 0.0055], [6.9, 0.66, 0.019, 0.0055]], "recited": [0.14, 0.23, 0.17], "map": "1fff 1fff 1fff 1fff 3fff 3fff 3fff 3fff 7fff 7fff 7fff 7fff ffff ffff ffff ffff", "apart": true, "places": true},
    "scores over K": {"losses": [[6.9, 0.76, 0.019, 0.0054], [7.0, 0.8, 0.02, 0.0055], [6.9, 0.73, 0.019, 0.0054]], "recited": [1.0, 1.0, 1.0], "map": "0001 0003 0007 000f 001f 003f 007f 00ff 01ff 03ff 07ff 0fff 1fff 3fff 7fff ffff", "apart": true, "places": true},
    "no positions": {"losses": [[6.9, 0.86, 0.021, 0.0057], [6.9, 0.82, 0.02, 0.0056], [6.9, 0.82, 0.02, 0.0054]], "recited": [1.0, 1.0, 1.0], "map": "0001 0003 0007 000f 001f 003f 007f 00ff 01ff 03ff 07ff 0fff 1fff 3fff 7fff ffff", "apart": true, "places": false},
    "no residuals": {"losses": [[6.9, 4.0, 2.0, 0.22], [6.9, 3.5, 1.9, 0.26], [6.9, 4.0, 4.0, 4.0]], "recited": [1.0, 1.0, 0.06], "map": "0001 0003 0007 000f 001f 003f 007f 00ff 01ff 03ff 07ff 0fff 1fff 3fff 7fff ffff", "apart": true, "places": true},
    "norm over the batch": {"losses": [[6.9, 1.3, 0.024, 0.0068], [7.0, 1.3, 0.024, 0.0067], [6.9, 1.3, 0.024, 0.0069]], "recited": [1.0, 1.0, 1.0], "map": "0001 0003 0007 000f 001f 003f 007f 00ff 01ff 03ff 07ff 0fff 1fff 3fff 7fff ffff", "apart": false, "places": true},
    "targets not moved": {"losses": [[6.5, 0.29, 0.017, 0.0052], [6.5, 0.28, 0.016, 0.0052], [6.5, 0.29, 0.017, 0.0052]], "recited": [0.0, 0.0, 0.0], "map": "0001 0003 0007 000f 001f 003f 007f 00ff 01ff 03ff 07ff 0fff 1fff 3fff 7fff ffff", "apart": true, "places": true},
    "softmax twice": {"losses": [[6.9, 6.1, 5.9, 5.9], [6.9, 6.1, 5.9, 5.9], [6.9, 6.1, 5.9, 5.9]], "recited": [1.0, 1.0, 1.0], "map": "0001 0003 0007 000f 001f 003f 007f 00ff 01ff 03ff 07ff 0fff 1fff 3fff 7fff ffff", "apart": true, "places": true},
  };

  // What a reader may name, and what gave it away.
  const MISTAKES = {
    "no mistake": ["none", "All five checks come out as they should"],
    "no mask": ["no causal mask", "The map is filled above its diagonal, too"],
    "merged untransposed": ["heads merged in the wrong order", "The map has stairs, and little of what was learned is written again"],
    "scores over K": ["scores divided by K, not √K", "No check here shows it; comparing part by part does"],
    "no positions": ["no positions", "One token repeated gets the same logits at all places"],
    "no residuals": ["no residual connections", "The loss falls late, and with one seed it stays at 4"],
    "norm over the batch": ["norm over the batch", "Another text moves this text’s logits"],
    "targets not moved": ["targets not shifted", "The loss is low, but the model learned to repeat the token it reads"],
    "softmax twice": ["softmax taken twice", "The model writes everything again, yet the loss stays at 5.9"],
  };
  // In which order they come; not that of the list.
  const ORDER = ["targets not moved", "no positions", "no mistake", "softmax twice", "merged untransposed",
    "no residuals", "no mask", "scores over K", "norm over the batch"];
  const STEPS = [0, 60, 200, 400];
  const CHECKS = ["map", "places", "apart", "recited", "losses"];
  const NAMES = {
    map: "the map", places: "the repeated token", apart: "the other text", losses: "the loss",
    recited: "what it writes again",
  };

  // The middle one of three seeds.
  const middle = (three) => [...three].sort((a, b) => a - b)[1];

  // Whether two outcomes of a check differ by more than seeds do.
  function differs(check, one, two) {
    const far = (n) => Math.abs(Math.log(middle(one.map((x) => x[n])) / middle(two.map((x) => x[n])))) > 0.35;
    if (check === "losses") return STEPS.some((_, n) => far(n));
    if (check === "recited") return Math.abs(middle(one) - middle(two)) > 0.3;
    return one !== two;
  }

  // The checks that tell two mistakes apart.
  const apart = (one, two) => CHECKS.filter((check) => differs(check, FOUND[one][check], FOUND[two][check]));

  // What is said of a guess.
  function judged(guess, truth) {
    const [name, why] = MISTAKES[truth];
    if (guess === truth) return [true, `Right: ${name === "none" ? "no mistake" : name}. ${why}.`];
    const told = apart(guess, truth);
    if (!told.length) return [false, truth === "no mistake"
      ? "No, this model is correct. No check here can tell; comparing part by part can."
      : "There is one: scores are divided by K. No check here can tell; comparing part by part can."];
    return [false, `No. Look at ${NAMES[told[0]]}: ` + (guess === "no mistake"
      ? "a correct model gives another outcome." : "that mistake gives another outcome.")];
  }

  // Which logits move when a token changes: 16 rows, a letter for each place.
  const cells = (map) => map.split(" ").map((row) => Array.from({ length: 16 }, (_, t) => parseInt(row, 16) >> t & 1));

  function draw({ picture, controls, said }) {
    const state = { model: 0, named: new Set(), guess: null };
    const view = kit.drawing(picture, 340, 190, "Left, which logits move when a token changes; right, the loss");
    const shown = kit.svg("g", {});
    view.append(shown);
    const list = kit.el("ul", { class: "live-checks" });
    picture.append(list);
    kit.slider(controls, {
      label: "model", min: 1, max: ORDER.length, step: 1, value: 1, show: (x) => `${x} of ${ORDER.length}`,
      input: (x) => {
        state.model = x - 1;
        state.guess = null;
        controls.querySelectorAll("[type=radio]").forEach((radio) => { radio.checked = false; });
        update();
      },
    });
    kit.choice(controls, {
      label: "its mistake", value: null, options: Object.entries(MISTAKES).map(([key, [name]]) => [key, name]),
      change: (guess) => {
        state.guess = guess;
        update();
      },
    });
    const number = kit.number(controls);

    const x = (steps) => 210 + (120 * steps) / 400;
    const y = (loss) => 145 - (130 * Math.log(loss / 0.003)) / Math.log(10 / 0.003);
    const curve = (losses, style) => kit.svg("polyline", {
      points: losses.map((loss, n) => `${x(STEPS[n])},${y(loss)}`).join(" "), style: `fill: none; ${style}`,
    });

    function pictures({ map, losses }) {
      const [side, left, top] = [9, 22, 2];
      shown.replaceChildren(...cells(map).flatMap((row, s) => row.map((moves, t) => kit.svg("rect", {
        x: left + side * t, y: top + side * s, width: side - 1, height: side - 1,
        style: `fill: ${moves ? "var(--live-attention)" : "var(--book-code-edge)"}`,
      }))),
      kit.svg("path", { class: "axis", d: "M205 8V145H335" }),
      ...[0.01, 0.1, 1].map((loss) => kit.text(200, y(loss) + 4, loss, { class: "quiet end" })),
      kit.svg("path", { class: "grid", d: `M205 ${y(Math.log(1024))}H335` }),
      kit.text(335, y(Math.log(1024)) - 4, "ln V", { class: "quiet end" }),
      kit.text(210, 160, 0, { class: "quiet" }), kit.text(330, 160, 400, { class: "quiet" }),
      kit.text(270, 178, "loss; dashed: correct", { class: "quiet" }),
      kit.text(94, 160, "across: token that changes", { class: "quiet" }),
      kit.text(94, 178, "down: logits that move", { class: "quiet" }),
      ...losses.map((each) => curve(each, "stroke: var(--live-head); stroke-width: 1.5")),
      ...FOUND["no mistake"].losses.map((each) =>
        curve(each, "stroke: var(--pst-color-text-base); stroke-width: 1.2; stroke-dasharray: 3 3")));
    }

    function update() {
      const truth = ORDER[state.model];
      const found = FOUND[truth];
      pictures(found);
      const lines = [
        `Loss after 400 steps, three seeds: ${found.losses.map((each) => Number(each[3].toPrecision(1))).join(", ")}`,
        `Writes again what it learned: ${found.recited.map((share) => `${Math.round(100 * share)}%`).join(", ")}`,
        `One token repeated: logits ${found.places ? "differ from place to place" : "are the same at all places"}`,
        `Another text of the batch changes: logits ${found.apart ? "stay" : "move"}`,
      ];
      list.replaceChildren(...lines.map((line) => kit.el("li", {}, line)));
      const [right, words] = state.guess ? judged(state.guess, truth) : [false, "Name the mistake of this model."];
      if (right) state.named.add(truth);
      number(`${state.named.size} of ${ORDER.length}`, `models named. ${words}`);
      said(`Model ${state.model + 1}. ${state.guess ? words : `${lines.join(". ")}. Map: ${told(found.map)}.`}`);
    }

    // The map in words.
    function told(map) {
      const above = cells(map).flatMap((row, s) => row.slice(s + 1));
      const moving = above.filter((moves) => moves).length;
      return `later tokens move ${moving} of ${above.length} earlier logits`;
    }
    update();
  }

  Live.widget("mistake", { compute: { FOUND, ORDER, apart, judged, cells }, draw });
})();
