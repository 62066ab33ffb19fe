// Parallel coordinates: an axis for each parameter and the value, a line for each trial, coloured by
// its value. Dragging along an axis filters by that column.
"use strict";

const parallel = (() => {
  const HEIGHT = 330;
  const TOP = 40;
  const BOTTOM = 24;
  const SIDE = 54;
  const MOST = 3000; // lines: more cannot be told apart
  const RAMP = chart.LEVELS.slice(4); // from the worst to the best; a dark page reverses it

  function axisOf(column) {
    const entries = column.values.filter((entry) => entry !== null);
    if (column.isText) {
      const names = [...new Set(entries.map(String))].sort();
      return { column, names, share: (entry) => (names.indexOf(String(entry)) + 0.5) / names.length };
    }
    let [low, high] = [Infinity, -Infinity];
    for (const entry of entries) { low = Math.min(low, entry); high = Math.max(high, entry); }
    const log = low > 0 && high > 100 * low;
    const scaled = log ? Math.log : (entry) => entry;
    const [a, b] = [scaled(low), scaled(high)];
    const span = b > a ? b - a : 1;
    return {
      column, low, high, log,
      share: (entry) => (b > a ? (scaled(entry) - a) / span : 0.5),
      place: (share) => (log ? Math.exp(a + share * span) : a + share * span),
    };
  }

  // options: brush(key, [low, high] or text); sign: 1 to minimise, -1 to maximise.
  function make(place, options) {
    const canvas = element("canvas", {
      role: "img",
      "aria-label": "Parallel coordinates: each line is a trial, coloured by its value. The filter of the tab Trials selects the same trials with the keyboard.",
    });
    const marker = element("div", { class: "brush", hidden: true });
    const holder = element("div", { class: "parallel" }, canvas, marker);
    const best = element("span", {});
    place.append(
      element("p", { class: "note hint" }, "Each line is a trial. Drag along an axis to filter the trials, click it to remove that filter."),
      element("div", { class: "legend" },
        element("span", { class: "entry" }, "worst", element("span", { class: "ramp by-value" }, RAMP.map((colour) => element("i", { style: { "background-color": colour } }))), "best values"),
        element("span", { class: "entry" }, element("i", { class: "sample stroke", style: { "background-color": "var(--second)" } }), best)),
      holder);
    let axes = [];
    let state = null;

    const size = () => Math.max(holder.clientWidth, 80 * axes.length, 300);
    const across = (i) => SIDE + (axes.length > 1 ? (i * (size() - 2 * SIDE)) / (axes.length - 1) : 0);
    const down = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);

    function paint() {
      if (!state || !holder.clientWidth) return;
      const { trials, kept } = state;
      const value = trials.columns.get("value").values;
      axes = [...trials.of("param"), trials.columns.get("value")].filter((column) => column.values.some((entry) => entry !== null)).map(axisOf);
      const ratio = devicePixelRatio || 1;
      const width = size();
      canvas.width = width * ratio;
      canvas.height = HEIGHT * ratio;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${HEIGHT}px`;
      const ctx = canvas.getContext("2d");
      ctx.scale(ratio, ratio);
      ctx.clearRect(0, 0, width, HEIGHT);
      const css = getComputedStyle(document.documentElement);
      const colour = (name) => css.getPropertyValue(name).trim();
      const rows = [];
      for (let row = 0; row < trials.count; row += 1) if (value[row] !== null) rows.push(row);
      rows.sort((a, b) => options.sign() * (value[b] - value[a])); // the best last, on top
      const step = Math.max(rows.length / MOST, 1);
      const some = [];
      for (let at = rows.length - 1; at >= 0; at -= step) some.unshift(rows[Math.round(at)]);
      const ramp = matchMedia("(prefers-color-scheme: dark)").matches ? [...RAMP].reverse() : RAMP;
      const passes = kept ? [some.filter((row) => !kept.has(row)), some.filter((row) => kept.has(row))] : [[], some];
      best.textContent = passes[1].length ? `best: trial ${passes[1][passes[1].length - 1]}` : "no trial";
      const colours = { ...ramp, best: colour("--second"), "left out": colour("--rule") };
      passes.forEach((lines, pass) => lines.forEach((row, i) => {
        const rank = lines.length > 1 ? i / (lines.length - 1) : 1; // 1: the best
        const isBest = pass && i === lines.length - 1;
        ctx.strokeStyle = colours[isBest ? "best" : pass ? Math.floor(rank * (ramp.length - 1)) : "left out"];
        ctx.globalAlpha = isBest ? 1 : pass ? (0.45 + 0.45 * rank) / (lines.length > 600 ? 2.5 : 1) : 0.5;
        ctx.lineWidth = isBest ? 2.6 : 1.2;
        ctx.beginPath();
        let isDrawing = false; // a parameter without a value, by a condition, interrupts the line
        axes.forEach((axis, k) => {
          const entry = axis.column.values[row];
          if (entry === null) { isDrawing = false; return; }
          if (isDrawing) ctx.lineTo(across(k), down(axis.share(entry)));
          else ctx.moveTo(across(k), down(axis.share(entry)));
          isDrawing = true;
        });
        ctx.stroke();
      }));
      ctx.globalAlpha = 1;
      ctx.font = "12px system-ui, sans-serif";
      ctx.textAlign = "center";
      axes.forEach((axis, k) => {
        const x = across(k);
        ctx.strokeStyle = colour("--ink-2");
        ctx.lineWidth = 1;
        ctx.beginPath();
        ctx.moveTo(x, down(1));
        ctx.lineTo(x, down(0));
        ctx.stroke();
        const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
        const write = (text, left, top) => { // with an edge, because lines cross the words
          ctx.strokeStyle = colour("--card");
          ctx.lineWidth = 4;
          ctx.lineJoin = "round";
          ctx.strokeText(text, left, top);
          ctx.fillText(text, left, top);
        };
        ctx.fillStyle = colour("--ink");
        ctx.font = "600 12px system-ui, sans-serif";
        ctx.fillText(cut(axis.column.key, 14), x, 14);
        ctx.font = "11px system-ui, sans-serif";
        ctx.fillStyle = colour("--ink-2");
        if (axis.names) axis.names.slice(0, 12).forEach((name) => {
          ctx.textAlign = "left";
          write(cut(name, 12), x + 6, down(axis.share(name)) - 8);
          ctx.textAlign = "center";
        });
        else {
          write(format.general(axis.high, 3), x, down(1) - 6);
          write(format.general(axis.low, 3), x, down(0) + 14);
        }
      });
    }

    let drag = null;
    const local = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const shareAt = (y) => Math.min(Math.max(1 - (y - TOP) / (HEIGHT - TOP - BOTTOM), 0), 1);
    canvas.addEventListener("pointerdown", (event) => {
      const [x, y] = local(event);
      const k = axes.findIndex((_, i) => Math.abs(across(i) - x) < 18);
      if (k < 0) return;
      drag = { k, from: y };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const [, y] = local(event);
      marker.hidden = false;
      marker.style.left = `${across(drag.k) - 9}px`;
      marker.style.top = `${Math.min(y, drag.from)}px`;
      marker.style.height = `${Math.abs(y - drag.from)}px`;
    });
    canvas.addEventListener("pointerup", (event) => {
      if (!drag) return;
      const [, y] = local(event);
      const axis = axes[drag.k];
      const [low, high] = [shareAt(Math.max(y, drag.from)), shareAt(Math.min(y, drag.from))];
      marker.hidden = true;
      const isClick = Math.abs(y - drag.from) < 4;
      drag = null;
      if (axis.names) options.brush(axis.column.key, axis.names[Math.min(Math.floor(((low + high) / 2) * axis.names.length), axis.names.length - 1)]);
      else options.brush(axis.column.key, isClick ? null : [axis.place(low), axis.place(high)]);
    });
    new ResizeObserver(paint).observe(holder);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);

    // `kept`: the set of rows that the filter keeps; null: all.
    return { show(trials, kept) { state = { trials, kept }; paint(); } };
  }

  return { make };
})();
