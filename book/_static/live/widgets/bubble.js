// The pipeline's bubble: stages, micro-batches, two schedules, by a simulated clock.

(function () {
  "use strict";
  const { kit } = Live;

  const numbers = (n) => Array.from({ length: n }, (_, m) => m);

  // For each stage its tasks in order: [kind, micro-batch].
  function gpipe(stages, batches) {
    const tasks = [...numbers(batches).map((m) => ["forward", m]),
      ...numbers(batches).map((m) => ["backward", m])];
    return numbers(stages).map(() => [...tasks]);
  }

  function alternating(stages, batches) {
    return numbers(stages).map((stage) => {
      const ahead = Math.min(stages - 1 - stage, batches);
      const tasks = numbers(ahead).map((m) => ["forward", m]);
      for (const m of numbers(batches)) {
        if (ahead + m < batches) tasks.push(["forward", ahead + m]);
        tasks.push(["backward", m]);
      }
      return tasks;
    });
  }

  // When each stage begins and ends each task, if messages took no time.
  function simulate(schedules, forward = 1, backward = 2) {
    const left = schedules.map((tasks) => [...tasks]);
    const free = schedules.map(() => 0);
    const lengths = { forward, backward };
    const ends = { forward: 0, backward: schedules.length - 1 };
    const came = new Map();
    const key = (stage, [kind, m]) => `${stage} ${kind} ${m}`;
    schedules.flat().forEach((task) => came.set(key(ends[task[0]], task), 0));
    const times = schedules.map(() => []);
    while (left.some((tasks) => tasks.length)) {
      const ready = left.map((tasks, s) => s).filter((s) => left[s].length && came.has(key(s, left[s][0])));
      if (!ready.length) throw new Error("no stage can go on");
      for (const stage of ready) {
        const task = left[stage].shift();
        const begin = Math.max(came.get(key(stage, task)), free[stage]);
        free[stage] = begin + lengths[task[0]];
        came.set(key(stage + (task[0] === "forward" ? 1 : -1), task), free[stage]);
        times[stage].push([...task, begin, free[stage]]);
      }
    }
    return times;
  }

  const total = (times) => Math.max(...times.flat().map((task) => task[3]));

  // The share of the stages' time in which they wait.
  function bubble(times) {
    const busy = times.flat().reduce((sum, task) => sum + task[3] - task[2], 0);
    return 1 - busy / (times.length * total(times));
  }

  // The most micro-batches whose activations a stage holds at once.
  function held(tasks) {
    let [now, most] = [0, 0];
    for (const [kind] of tasks) {
      now += kind === "forward" ? 1 : -1;
      most = Math.max(most, now);
    }
    return most;
  }

  const ORDERS = { gpipe, alternating };

  function draw({ picture, controls, said }) {
    const state = { stages: 4, batches: 4, order: "gpipe", backward: 2 };
    const number = kit.number(picture);
    const view = kit.drawing(picture, 340, 196, "Each stage's work against time");
    const boxes = kit.svg("g", {});
    view.append(boxes,
      kit.text(22, 192, "forward", { style: "fill: var(--live-attention)", class: "live-letter start" }),
      kit.text(76, 192, "backward", { style: "fill: var(--live-warm)", class: "live-letter start" }),
      kit.text(335, 192, "time, the whole step", { class: "quiet end" }));
    kit.choice(controls, {
      label: "schedule", value: "gpipe",
      options: [["gpipe", "GPipe"], ["alternating", "1F1B"]],
      change: (order) => {
        state.order = order;
        update();
      },
    });
    const slider = (name, label, min, max, step) => kit.slider(controls, {
      label, min, max, step, value: state[name], show: (x) => kit.fixed(x, step < 1 ? 1 : 0),
      input: (x) => {
        state[name] = x;
        update();
      },
    });
    slider("stages", "stages P", 1, 8, 1);
    slider("batches", "micro-batches M", 1, 24, 1);
    slider("backward", "backward takes, in forward passes", 1, 3, 0.5);

    function update() {
      const { stages, batches, order, backward } = state;
      const schedules = ORDERS[order](stages, batches);
      const times = simulate(schedules, 1, backward);
      const [end, high] = [total(times), 170 / stages];
      boxes.replaceChildren();
      times.forEach((tasks, stage) => {
        const y = 4 + stage * high;
        boxes.append(
          kit.svg("rect", { x: 20, y, width: 315, height: high - 4, style: "fill: var(--book-code-edge)" }),
          kit.text(14, y + high / 2 + 2, stage, { class: "quiet end" }));
        for (const [kind, m, from, to] of tasks) {
          const hue = kind === "forward" ? "var(--live-attention)" : "var(--live-warm)";
          const [x, width] = [20 + (315 * from) / end, (315 * (to - from)) / end];
          boxes.append(kit.svg("rect", {
            x, y, width, height: high - 4,
            style: `fill: ${hue}; stroke: var(--pst-color-background); stroke-width: 0.8`,
          }));
          if (width > 13 && high > 18) {
            boxes.append(kit.text(x + width / 2, y + high / 2 + 2, m,
              { style: "fill: var(--pst-color-background); font-weight: 700" }));
          }
        }
      });
      const idle = bubble(times);
      const most = schedules.map(held);
      const holds = `the first stage holds ${most[0]} micro-batch${most[0] === 1 ? "" : "es"} at once`;
      number(`${kit.fixed(100 * idle, 1)}%`,
        `of the stages’ time is idle (grey), for ${kit.fixed(end, 1)} units of time; ${holds}`);
      said(`${kit.fixed(100 * idle, 1)} per cent idle; ${holds}.`);
    }
    update();
  }

  Live.widget("bubble", { compute: { gpipe, alternating, simulate, bubble, held }, draw });
})();
