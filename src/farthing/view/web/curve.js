// The main chart, best value against cost, from the columns of the trials: a `Panel` of
// view/primitives.py in which every trial is a point.
"use strict";

const curve = (() => {
  const FAR = 3; // a bad value this many interquartile ranges beyond its quartile is off the axis
  const EDGE = 0.02;
  const MARGIN = 0.04;
  const LOG_FROM = 100;
  const STATES = ["done", "paused", "failed", "killed", "lost"];

  function axis(label, low, high, log, from) {
    if (log) {
      const margin = Math.max(MARGIN * Math.log(high / low), 0.05);
      return { label, log, low: low * Math.exp(-margin), high: high * Math.exp(margin), ticks: [], names: [] };
    }
    const margin = high > low ? MARGIN * (high - low) : Math.max(Math.abs(high) * 0.05, 1e-12);
    return { label, log, low: from ?? low - margin, high: high + margin, ticks: [], names: [] };
  }

  const spentLabel = (resource) => (resource === "trials" ? "number of trials" : resource === "cost" ? "spent" : `spent (${resource})`);

  // The rows at which the best feasible value improved.
  function improvements(trials, order, sign) {
    const value = trials.columns.get("value").values;
    const feasible = trials.columns.get("feasible").values;
    const found = [];
    for (const row of order) {
      if (value[row] === null || !feasible[row]) continue;
      if (!found.length || sign * (value[row] - value[found[found.length - 1]]) < 0) found.push(row);
    }
    return found;
  }

  // The panel; null if no trial has a value. scale: of the values, "log", "linear" or "" to choose.
  function panel(trials, facts, resource, scale) {
    const account = facts.accounts.find((each) => each.resource === resource);
    const { order, end, total } = trials.spending(resource, account ? account.spent : 0);
    const value = trials.columns.get("value").values;
    const state = trials.columns.get("state").values;
    const sign = facts.direction === "minimize" ? 1 : -1;
    const losses = order.filter((row) => value[row] !== null).map((row) => sign * value[row]).sort((a, b) => a - b);
    if (!losses.length) return null;
    const quantile = (share) => losses[Math.floor(share * (losses.length - 1))];
    const limit = quantile(0.75) + FAR * Math.max(quantile(0.75) - quantile(0.25), 1e-12 * Math.abs(quantile(0.75)));
    const near = losses.filter((loss) => loss <= limit).map((loss) => sign * loss);
    const [low, high] = sign > 0 ? [near[0], near[near.length - 1]] : [near[near.length - 1], near[0]];
    const better = sign > 0 ? "lower" : "higher";
    const y = axis(`${facts.metric} (${better} is better)`, low, high, low > 0 && (scale ? scale === "log" : high > LOG_FROM * low));
    y.positive = low > 0;
    const x = axis(spentLabel(resource), 0, Math.max(total, 1e-12), false, 0);
    x.format = (amount) => format.amount(resource === "trials" ? "cost" : resource, amount);
    x.isTime = ["s", "worker_s"].includes(resource);
    const share = (part) => (y.log ? Math.exp(Math.log(y.low) * (1 - part) + Math.log(y.high) * part) : y.low + part * (y.high - y.low));
    const [bottom, top] = [share(EDGE), share(1 - EDGE)];
    const layers = STATES.map((kind) => {
      const rows = order.filter((row) => state[row] === kind);
      return {
        kind: "points", style: kind, label: `${kind} (${format.count(facts.states[kind] ?? rows.length)})`, rows, size: 1.1,
        x: rows.map((row) => end[row]),
        y: rows.map((row) => (value[row] === null ? (sign > 0 ? top : bottom) : Math.min(Math.max(value[row], bottom), top))),
      };
    }).filter((layer) => layer.rows.length);
    const improved = improvements(trials, order, sign);
    if (improved.length) {
      const last = value[improved[improved.length - 1]];
      layers.push({
        kind: "line", style: "best", step: true, label: `best: ${format.number(last)}`,
        x: [...improved.map((row) => end[row]), total], y: [...improved.map((row) => value[row]), last],
      });
    }
    return { title: "", x, y, layers };
  }

  // Why there is no panel.
  function nothing(facts) {
    const ended = Object.entries(facts.states).filter(([state]) => state !== "running").map(([state, count]) => `${count} ${state}`).join(", ");
    return element("p", { class: "empty" }, ended ? `No trial returned a value: ${ended}.` : "No trial has ended yet.");
  }

  return { improvements, nothing, panel, spentLabel };
})();
