// Draws a panel of a figure (`view/primitives.py`) with uPlot, which gives the axes, the zoom and
// the cursor. The layers are painted here, because they are not rows of one table.
"use strict";

const chart = (() => {
  const RADIUS = { o: 3, ".": 2.3, x: 3.4, "|": 5, s: 2.8, d: 3.8 };
  const MANY = 4000; // marks from which squares are painted, which is faster
  const NEAR = 22; // pixels from the cursor within which a mark is found
  const LEVELS = ["#f1f6fb", "#e0ecf7", "#cde0f1", "#b5d2ea", "#98c1e1", "#79aed6", "#5a99ca",
    "#3f83bc", "#296cab", "#1a5595", "#0f3f78", "#082a58"];
  // Steps between ticks of time in seconds, as in view/primitives.py.
  const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  const RIGHT = 18; // pixels to the right of the axes
  const TICK_PIXELS = 84; // between two ticks, about
  const drawn = new Set(); // charts of this page, which follow its colours and its width

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const quoted = (name) => css(name).replace(/"/g, "");

  function look(style) {
    return {
      colour: css(`--${style}`) || css("--best"),
      mark: quoted(`--${style}-mark`) || "o",
      dash: quoted(`--${style}-dash`).split(" ").filter(Boolean).map(Number),
      lines: quoted(`--${style}-lines`).split(" ").filter(Boolean).map(Number),
    };
  }

  // ── axes ─────────────────────────────────────────────────────────────────────────────────

  function ticks(low, high, log, wanted, isTime) {
    if (!(high > low)) return [low];
    if (log) {
      const found = [];
      const decades = Math.log10(high / low);
      const parts = decades <= 1.5 ? [1, 2, 3, 5, 7] : decades <= 4 ? [1, 2, 5] : [1];
      const every = Math.max(1, Math.ceil(decades / (wanted + 2)));
      for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k += every) {
        for (const part of parts) found.push(part * 10 ** k);
      }
      const inside = found.filter((value) => value >= low && value <= high);
      if (inside.length > 1) return inside;
    }
    const rough = (high - low) / Math.max(wanted, 2);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = isTime && rough >= 1
      ? TIMES.find((time) => time >= rough) ?? 86400 * Math.ceil(rough / 86400)
      : power * [1, 2, 2.5, 5, 10].find((m) => power * m >= rough * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k <= high / step + 1e-9; k += 1) found.push(k * step + 0); // + 0: no -0
    return found;
  }

  // length: pixels for the label of the axis, about.
  function axisOptions(axis, side, isZoomed, narrow, length) {
    const across = side === 2;
    const room = Math.floor(length / 6.3);
    const label = axis.label.length > room ? `${axis.label.slice(0, Math.max(room - 1, 8))}…` : axis.label;
    const given = () => axis.ticks.length && (axis.names.length || axis.fixed || !isZoomed());
    const words = new Map(axis.ticks);
    return {
      scale: across ? "x" : "y",
      side,
      stroke: () => css("--ink-2"),
      grid: { stroke: () => css("--rule"), width: 1, show: !axis.names.length },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
      labelFont: "12px system-ui, sans-serif",
      label: label || null,
      labelSize: axis.label ? 20 : 0,
      gap: 6,
      size: across ? 24 : (u, values) => yWidth(values || [], narrow),
      splits: (u, _, low, high) => {
        const length = across ? u.bbox.width / uPlot.pxRatio : u.bbox.height / uPlot.pxRatio;
        if (given()) return axis.ticks.map(([value]) => value).filter((v) => v >= low && v <= high);
        return ticks(low, high, axis.log, Math.round(length / (across ? TICK_PIXELS : 48)), axis.isTime);
      },
      values: (u, splits) => {
        const most = across ? u.bbox.width / uPlot.pxRatio / Math.max(splits.length, 1) / 6.6 : 28;
        const cut = (word) => (word.length > most && axis.names.length ? `${word.slice(0, Math.max(most - 1, 2))}…` : word);
        let end = -Infinity; // words must not overlap, nor leave the chart
        const edge = u.bbox.width / uPlot.pxRatio + RIGHT;
        return splits.map((value) => {
          const word = cut(given() && words.has(value) ? words.get(value) : axis.format ? axis.format(value) : format.general(value, 4));
          if (!across) return word;
          const at = u.valToPos(value, "x");
          const half = 3.4 * word.length;
          if (at - half < end || at + half > edge) return "";
          end = at + half + 6;
          return word;
        });
      },
      filter: (u, splits) => splits,
    };
  }

  function yWidth(words, narrow) {
    const longest = Math.max(3, ...words.map((word) => word.length));
    return Math.min(24 + 7.1 * Math.min(longest, 28), narrow ? 120 : 220);
  }

  // ── layers ───────────────────────────────────────────────────────────────────────────────

  // Pixels of a value; values far outside are moved nearer.
  const placer = (u, scale) => (value) => Math.min(Math.max(u.valToPos(value, scale, true), -1e5), 1e5);

  function paint(u, layers, faded) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    const frame = { ctx, ratio: uPlot.pxRatio, x: placer(u, "x"), y: placer(u, "y"), u };
    ctx.save();
    ctx.beginPath();
    ctx.rect(left - 3, top - 3, width + 6, height + 6);
    ctx.clip();
    for (const layer of layers) {
      if (layer.hidden) continue;
      ctx.save();
      PAINTERS[layer.kind](frame, layer, look(layer.style || "best"), faded);
      ctx.restore();
    }
    ctx.restore();
  }

  const PAINTERS = { line: paintLine, points: paintPoints, segments: paintSegments, band: paintBand, heat: paintHeat };

  function paintLine({ ctx, ratio, x, y }, layer, { colour, dash }) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = (layer.style === "best" ? 2 : 1.4) * ratio;
    ctx.setLineDash(dash.map((part) => part * ratio));
    ctx.beginPath();
    layer.x.forEach((value, i) => {
      if (value === null || layer.y[i] === null) return;
      const at = x(value);
      if (!i) ctx.moveTo(at, y(layer.y[i]));
      else {
        if (layer.step) ctx.lineTo(at, y(layer.y[i - 1]));
        ctx.lineTo(at, y(layer.y[i]));
      }
    });
    ctx.stroke();
  }

  function paintBand({ ctx, x, y }, layer, { colour }) {
    ctx.fillStyle = colour;
    ctx.globalAlpha = 0.16;
    ctx.beginPath();
    layer.x.forEach((value, i) => ctx.lineTo(x(value), y(layer.high[i])));
    for (let i = layer.x.length - 1; i >= 0; i -= 1) ctx.lineTo(x(layer.x[i]), y(layer.low[i]));
    ctx.fill();
  }

  function paintPoints({ ctx, ratio, x, y }, layer, { colour, mark }, faded) {
    ctx.strokeStyle = ctx.fillStyle = colour;
    const count = layer.x.length;
    if (layer.low && layer.low.length) {
      ctx.lineWidth = 0.8 * ratio;
      ctx.beginPath();
      for (let i = 0; i < count; i += 1) {
        ctx.moveTo(x(layer.x[i]), y(layer.low[i]));
        ctx.lineTo(x(layer.x[i]), y(layer.high[i]));
      }
      ctx.stroke();
    }
    const r = RADIUS[mark] * (layer.size || 1) * ratio;
    const isFaded = faded && layer.rows ? (i) => faded(layer.rows[i]) : () => false;
    for (const wanted of faded && layer.rows ? [true, false] : [false]) {
      ctx.globalAlpha = wanted ? 0.12 : count > MANY ? 0.45 : 0.8;
      ctx.lineWidth = (mark === "|" ? 2.2 : 1.6) * ratio;
      ctx.beginPath();
      for (let i = 0; i < count; i += 1) {
        if (layer.x[i] === null || layer.y[i] === null || isFaded(i) !== wanted) continue;
        const at = x(layer.x[i]);
        const up = y(layer.y[i]);
        if (count > MANY) ctx.rect(at - r / 2, up - r / 2, r, r);
        else trace(ctx, mark, at, up, r);
      }
      if (mark === "x" || mark === "|") { if (count > MANY) ctx.fill(); else ctx.stroke(); } else ctx.fill();
    }
  }

  function trace(ctx, mark, x, y, r) {
    if (mark === "x") {
      ctx.moveTo(x - r, y - r); ctx.lineTo(x + r, y + r);
      ctx.moveTo(x + r, y - r); ctx.lineTo(x - r, y + r);
    } else if (mark === "|") {
      ctx.moveTo(x, y - r); ctx.lineTo(x, y + r);
    } else if (mark === "s") ctx.rect(x - r, y - r, 2 * r, 2 * r);
    else if (mark === "d") {
      ctx.moveTo(x, y - r); ctx.lineTo(x + r, y); ctx.lineTo(x, y + r); ctx.lineTo(x - r, y);
      ctx.closePath();
    } else {
      ctx.moveTo(x + r, y);
      ctx.arc(x, y, r, 0, 2 * Math.PI);
    }
  }

  function thickness({ y }, layer) {
    return layer.thick ? Math.abs(y(0) - y(1)) * layer.thick : 0;
  }

  // Lines over an area, for readers who see no difference between its colour and another.
  function hatched(ctx, angles, ratio) {
    const size = 6 * ratio;
    const tile = element("canvas", { width: size, height: size });
    const lines = tile.getContext("2d");
    lines.strokeStyle = css("--hatch");
    lines.lineWidth = 1.5 * ratio;
    const [near, far] = [-size, 2 * size];
    for (const angle of angles) {
      for (const at of [-size, 0, size]) { // the lines of neighbouring tiles meet in the corners
        lines.beginPath();
        if (angle === 135) { lines.moveTo(near + at, far); lines.lineTo(far + at, near); }
        else if (angle === 45) { lines.moveTo(near + at, near); lines.lineTo(far + at, far); }
        else { lines.moveTo(size / 2 + at, near); lines.lineTo(size / 2 + at, far); }
        lines.stroke();
      }
    }
    return ctx.createPattern(tile, "repeat");
  }

  function paintSegments(frame, layer, { colour, mark, lines }) {
    const { ctx, ratio, x, y } = frame;
    const thick = thickness(frame, layer);
    const hatch = thick && lines.length ? hatched(ctx, lines, ratio) : null;
    ctx.strokeStyle = colour;
    layer.y.forEach((value, i) => {
      const start = x(layer.start[i]);
      const width = Math.max(x(layer.end[i]) - start, 1.2 * ratio);
      const height = thick || 2.2 * ratio;
      for (const paint of hatch ? [colour, hatch] : [colour]) {
        ctx.fillStyle = paint;
        ctx.fillRect(start, y(value) - height / 2, width - (thick && width > 4 * ratio ? ratio : 0), height);
      }
      if (!thick && mark !== "o" && mark !== ".") {
        ctx.beginPath();
        ctx.lineWidth = 1.5 * ratio;
        trace(ctx, mark, start + width / 2, y(value), 0.8 * RADIUS[mark] * ratio);
        if (mark === "x" || mark === "|") ctx.stroke(); else ctx.fill();
      }
    });
  }

  function edges(places) {
    if (places.length < 2) return [places[0] - 20, places[0] + 20];
    const middle = places.slice(1).map((place, i) => (place + places[i]) / 2);
    return [2 * places[0] - middle[0], ...middle, 2 * places[places.length - 1] - middle[middle.length - 1]];
  }

  function heatLevel(layer) {
    const scaled = layer.log ? Math.log : (value) => value;
    const values = layer.z.flat().filter((value) => value !== null).map(scaled);
    const low = Math.min(...values);
    const high = Math.max(...values);
    return (value) => Math.min(Math.floor(((scaled(value) - low) / Math.max(high - low, 1e-300)) * LEVELS.length), LEVELS.length - 1);
  }

  function paintHeat({ ctx, x, y }, layer) {
    const across = edges(layer.x.map(x));
    const down = edges(layer.y.map(y));
    const level = heatLevel(layer);
    layer.z.forEach((row, i) => row.forEach((value, j) => {
      if (value === null) return;
      ctx.fillStyle = LEVELS[level(value)];
      ctx.fillRect(across[j], Math.min(down[i], down[i + 1]), across[j + 1] - across[j] + 1, Math.abs(down[i + 1] - down[i]) + 1);
    }));
  }

  // ── the mark under the cursor ────────────────────────────────────────────────────────────

  // The nearest mark to a place in CSS pixels of the plotting area: {layer, index, left, top}.
  function nearest(u, layers, left, top, reach = NEAR) {
    const ratio = uPlot.pxRatio;
    const frame = { x: placer(u, "x"), y: placer(u, "y") };
    const at = u.bbox.left + left * ratio;
    const up = u.bbox.top + top * ratio;
    let found = null;
    let least = (reach * ratio) ** 2;
    for (const layer of layers) {
      if (layer.hidden || !(layer.rows || (layer.texts && layer.texts.length) || layer.kind === "heat")) continue;
      const half = layer.kind === "segments" ? thickness(frame, layer) / 2 : 0;
      const count = layer.kind === "heat" ? 0 : layer.y.length;
      for (let i = 0; i < count; i += 1) {
        if (layer.y[i] === null) continue;
        let x;
        if (layer.kind === "segments") x = Math.min(Math.max(at, frame.x(layer.start[i])), frame.x(layer.end[i]));
        else if (layer.x[i] === null) continue;
        else x = frame.x(layer.x[i]);
        const y = frame.y(layer.y[i]);
        const distance = (x - at) ** 2 + Math.max(Math.abs(y - up) - half, 0) ** 2;
        if (distance < least) {
          least = distance;
          found = { layer, index: i, left: (x - u.bbox.left) / ratio, top: (y - u.bbox.top) / ratio };
        }
      }
      if (layer.kind === "heat") {
        const column = edges(layer.x.map(frame.x)).findIndex((edge) => edge > at) - 1;
        const places = edges(layer.y.map(frame.y));
        const row = layer.y.findIndex((_, i) => Math.min(places[i], places[i + 1]) <= up && up < Math.max(places[i], places[i + 1]));
        if (column >= 0 && column < layer.x.length && row >= 0) found = found || { layer, index: [row, column], left, top };
      }
    }
    return found;
  }

  function words(found, panel) {
    const { layer, index } = found;
    if (layer.kind !== "heat") return layer.texts[index];
    const [row, column] = index;
    const named = (axis, value) => axis.names[value] || format.number(value);
    return `${panel.x.label} ${named(panel.x, layer.x[column])}, ${panel.y.label} ${named(panel.y, layer.y[row])}: ${format.number(layer.z[row][column])}`;
  }

  // ── a chart ──────────────────────────────────────────────────────────────────────────────

  // options: height, a number or a function of the element; hover(row) -> node; choose(row); brush({x: [low, high], y: [low, high]});
  // zoomed(box or null); faded(row); describe: text for screen readers.
  function draw(place, panel, options = {}) {
    let shown = panel;
    let box = null; // what the reader has zoomed to
    let brushing = false;
    const tip = element("div", { class: "tip", role: "status", hidden: true });
    const holder = element("div", {
      class: "chart", tabindex: "0", role: "img",
      "aria-label": options.describe || panel.title || panel.y.label,
    });
    place.append(holder);
    const width = () => Math.max(holder.clientWidth, 220);
    const tall = () => (typeof options.height === "function" ? options.height(holder) : options.height || height(shown));
    const narrow = width() < 480;
    const initial = () => ({ x: [shown.x.low, shown.x.high], y: [shown.y.low, shown.y.high] });

    function zoom(next, quiet) {
      box = next;
      const { x, y } = next || initial();
      u.batch(() => {
        u.setScale("x", { min: x[0], max: x[1] });
        u.setScale("y", { min: y[0], max: y[1] });
      });
      holder.dataset.zoomed = next ? "yes" : "no";
      if (!quiet && options.zoomed) options.zoomed(next);
    }

    function selected() {
      const { left, top, width: wide, height } = u.select;
      if (wide < 3 && height < 3) return;
      const full = initial();
      const whole = (size, of) => size >= of - 1;
      const bounds = box || full;
      const area = { width: u.bbox.width / uPlot.pxRatio, height: u.bbox.height / uPlot.pxRatio };
      const next = {
        x: whole(wide, area.width) ? bounds.x : [u.posToVal(left, "x"), u.posToVal(left + wide, "x")],
        y: whole(height, area.height) ? bounds.y : [u.posToVal(top + height, "y"), u.posToVal(top, "y")],
      };
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      if (brushing) {
        options.brush({ x: whole(wide, area.width) ? null : next.x, y: whole(height, area.height) ? null : next.y });
      } else zoom(next);
    }

    function hover(found) {
      if (!found) { tip.hidden = true; holder.dataset.row = ""; return; }
      const row = found.layer.rows ? found.layer.rows[found.index] : null;
      holder.dataset.row = row === null ? "" : row;
      tip.replaceChildren(row !== null && options.hover ? options.hover(row) : words(found, shown));
      tip.hidden = false;
      const over = u.over.getBoundingClientRect();
      const right = over.left + found.left + 14;
      const size = tip.getBoundingClientRect();
      const left = right + size.width > window.innerWidth - 8 ? Math.max(right - size.width - 28, 8) : right;
      const top = Math.min(Math.max(over.top + found.top - 10, 8), Math.max(window.innerHeight - size.height - 8, 8));
      tip.style.left = `${left}px`;
      tip.style.top = `${top}px`;
    }

    let last = null; // the mark that is shown
    const scale = (axis) => ({ time: false, distr: axis.log ? 3 : 1, auto: false, range: (_, low, high) => [low, high] });
    const make = () => new uPlot({
      width: width(),
      height: tall(),
      pxAlign: false,
      padding: [8, RIGHT, 0, 0],
      legend: { show: false },
      scales: { x: scale(shown.x), y: scale(shown.y) },
      series: [{}, { show: true, points: { show: false }, paths: () => null }],
      axes: [axisOptions(shown.x, 2, () => box !== null, narrow, width() - 70), axisOptions(shown.y, 3, () => box !== null, narrow, tall())],
      cursor: {
        x: false, y: false, points: { show: false },
        drag: { x: true, y: !shown.y.names.length, setScale: false, uni: 24 },
        bind: { dblclick: () => () => { zoom(null); return null; } },
      },
      hooks: {
        draw: [(u) => paint(u, shown.layers, options.faded)],
        setSelect: [() => selected()],
        setCursor: [(u) => {
          if (u.cursor.left < 0 || u.cursor.event === undefined) return;
          last = nearest(u, shown.layers, u.cursor.left, u.cursor.top);
          hover(last);
        }],
      },
    }, [[shown.x.low, shown.x.high], [null, null]], holder);
    let u = make();
    holder.append(tip);
    zoom(null, true);

    u.over.addEventListener("mouseleave", () => { last = null; hover(null); });
    let pressed = null;
    const listen = () => {
      u.over.addEventListener("mousedown", (event) => { pressed = [event.clientX, event.clientY]; });
      u.over.addEventListener("click", (event) => {
        const moved = pressed && Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > 4;
        if (!moved && last && last.layer.rows && options.choose) options.choose(last.layer.rows[last.index]);
      });
      u.over.addEventListener("mouseleave", () => { last = null; hover(null); });
    };
    listen();

    // Keys: arrows go from mark to mark, Enter opens one, + and - zoom, 0 shows all.
    holder.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) step_to(step);
      else if (event.key === "Enter" && last && last.layer.rows && options.choose) options.choose(last.layer.rows[last.index]);
      else if (event.key === "+" || event.key === "-") scaleBy(event.key === "+" ? 0.5 : 2);
      else if (event.key === "0") { hover(null); zoom(null); } else return;
      event.preventDefault();
    });
    holder.addEventListener("blur", () => hover(null));

    function marks() {
      const found = [];
      for (const layer of shown.layers) {
        if (layer.hidden || layer.kind === "heat" || !(layer.rows || (layer.texts && layer.texts.length))) continue;
        const x = layer.kind === "segments" ? layer.end : layer.x;
        for (let i = 0; i < layer.y.length; i += 1) if (x[i] !== null && layer.y[i] !== null) found.push({ layer, index: i, x: x[i], y: layer.y[i] });
      }
      return found.sort((a, b) => a.x - b.x || a.y - b.y);
    }

    function step_to(step) {
      const all = marks();
      if (!all.length) return;
      const now = last ? all.findIndex((each) => each.layer === last.layer && each.index === last.index) : step > 0 ? -1 : all.length;
      const next = all[Math.min(Math.max(now + step, 0), all.length - 1)];
      last = { ...next, left: u.valToPos(next.x, "x"), top: u.valToPos(next.y, "y") };
      hover(last);
    }

    function scaleBy(factor) {
      const { x, y } = box || initial();
      const about = ([low, high], log) => {
        const [a, b] = log ? [Math.log(low), Math.log(high)] : [low, high];
        const half = ((b - a) * factor) / 2;
        const ends = [(a + b) / 2 - half, (a + b) / 2 + half];
        return log ? ends.map(Math.exp) : ends;
      };
      zoom({ x: about(x, shown.x.log), y: shown.y.names.length ? y : about(y, shown.y.log) });
    }

    const made = {
      holder,
      zoom,
      get layers() { return shown.layers; },
      redraw() { u.redraw(false); },
      brush(on) { brushing = on; holder.dataset.mode = on ? "select" : "zoom"; },
      resize() {
        const [wide, high] = [width(), tall()];
        if (Math.abs(wide - u.width) > 1 || Math.abs(high - u.height) > 1) u.setSize({ width: wide, height: high });
      },
      // Another panel in the same place: what the reader has zoomed to and hidden stays.
      update(next) {
        const hidden = new Set(shown.layers.filter((layer) => layer.hidden).map((layer) => layer.style));
        const same = next.x.log === shown.x.log && next.y.log === shown.y.log && next.x.label === shown.x.label && next.y.label === shown.y.label;
        for (const layer of next.layers) layer.hidden = hidden.has(layer.style);
        shown = next;
        last = null;
        if (!same) box = null;
        u.destroy();
        u = make();
        listen();
        zoom(box, true);
      },
      remove() { drawn.delete(made); watcher.disconnect(); u.destroy(); holder.remove(); },
    };
    const watcher = new ResizeObserver(() => made.resize());
    watcher.observe(holder);
    drawn.add(made);
    return made;
  }

  function height(panel) {
    const heat = panel.layers.some((layer) => layer.kind === "heat");
    return panel.y.names.length && !heat ? 26 * Math.max(panel.y.names.length, 2) + 52 : 280;
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((each) => each.redraw()));

  return { LEVELS, draw, look, ticks };
})();
