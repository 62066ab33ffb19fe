// The trials of a study in columns. Row i of each column belongs to trial i. An answer of the
// server has all trials, or only those that have changed.
"use strict";

class Trials {
  constructor() {
    this.count = 0;
    this.columns = new Map(); // key -> {key, kind, resource, values}
    this.positions = new Map(); // resource -> {end, order}: the axis of the spending
  }

  get shown() { return [...this.columns.values()].filter((column) => column.kind !== "hidden"); }

  of(kind) { return this.shown.filter((column) => column.kind === kind); }

  at(key, row) { return this.columns.get(key)?.values[row] ?? null; }

  merge({ count, numbers, columns }) {
    const before = this.columns;
    this.columns = new Map();
    for (const { key, kind, resource, values, words, at } of columns) {
      const column = { key, kind, resource, values: before.get(key)?.values || [] };
      column.values.length = count;
      for (let k = 0; k < numbers.length; k += 1) {
        column.values[numbers[k]] = values ? values[k] : at[k] === null ? null : words[at[k]];
      }
      if (column.values.includes(undefined)) column.values = Array.from(column.values, (value) => value ?? null);
      column.isText = column.values.some((value) => typeof value === "string");
      this.columns.set(key, column);
    }
    this.count = count;
    this.positions.clear();
  }

  // The cost of a trial for this study: an imported trial costs it nothing (core/shares.py).
  cost(row, resource) {
    if (this.at("origin", row) === "imported") return 0;
    return resource === "trials" ? 1 : this.at(`cost.${resource}`, row) ?? 0;
  }

  // Fixes the spending after each of these trials; others are not drawn.
  setSpending(resource, spent, order, ends) {
    const end = new Array(this.count).fill(null);
    order.forEach((row, k) => { end[row] = ends[k]; });
    this.positions.set(resource, { spent, order, end, total: ends.length ? ends[ends.length - 1] : 0 });
  }

  // The spending after each trial that has ended, in the order of their ends (figures/spending.py).
  spending(resource, spent) {
    const known = this.positions.get(resource);
    if (known && known.spent === spent) return known;
    const state = this.columns.get("state").values;
    const ended = this.columns.get("ended").values;
    const order = [];
    for (let i = 0; i < this.count; i += 1) if (state[i] !== "running") order.push(i);
    order.sort((a, b) => (ended[a] ?? 0) - (ended[b] ?? 0) || a - b);
    let total = 0;
    for (const row of order) total += this.cost(row, resource);
    const isShared = resource !== "trials" && total > 0 && spent > 0 && Math.abs(spent - total) > 1e-9 * spent;
    const share = isShared ? spent / total : 1;
    const end = new Array(this.count).fill(null);
    let at = 0;
    for (const row of order) {
      at += share * this.cost(row, resource);
      end[row] = at;
    }
    const found = { spent, order, end, total: at };
    this.positions.set(resource, found);
    return found;
  }
}
