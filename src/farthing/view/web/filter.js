// A filter of trials as text: `state=done value<0.3 "cost.usd">=2 adam`. A term compares a column
// with a value; a word alone is searched in all texts. All terms must hold.
"use strict";

const filter = (() => {
  const TERM = /(-?)(?:"([^"]*)"|([^\s"<>=!]+))?(?:(<=|>=|!=|=|<|>)(?:"([^"]*)"|([^\s"]*)))?/y;

  // [{key, operator, value} or {word}]; a wrong term has `error`.
  function parse(text, keys) {
    const terms = [];
    let at = 0;
    while (at < text.length) {
      if (/\s/.test(text[at])) { at += 1; continue; }
      TERM.lastIndex = at;
      const [whole, not, quoted, bare, operator, quotedValue, value] = TERM.exec(text);
      if (!whole) { terms.push({ error: `“${text.slice(at)}” is not understood` }); break; }
      at += whole.length;
      const name = quoted ?? bare ?? "";
      if (!operator) terms.push({ word: name.toLowerCase(), not: not === "-" });
      else {
        const key = keys.find((each) => each === name) ?? keys.find((each) => each.toLowerCase() === name.toLowerCase());
        if (key === undefined) terms.push({ error: `there is no column “${name}”` });
        else terms.push({ key, operator, value: quotedValue ?? value ?? "" });
      }
    }
    return terms;
  }

  const quote = (text) => (/^[^\s"<>=!-][^\s"<>=!]*$/.test(text) ? text : `"${text.replace(/"/g, "")}"`);

  const write = (terms) => terms.map((term) => (
    term.key === undefined ? (term.not ? "-" : "") + quote(term.word) : quote(term.key) + term.operator + quote(String(term.value)))).join(" ");

  function holds({ operator, value }, entry) {
    const number = Number(value);
    if (typeof entry === "number" && value !== "" && !Number.isNaN(number)) {
      switch (operator) {
        case "=": return entry === number || format.number(entry) === value;
        case "!=": return entry !== number;
        case "<": return entry < number;
        case "<=": return entry <= number;
        case ">": return entry > number;
        default: return entry >= number;
      }
    }
    if (operator === "=") return String(entry ?? "") === value;
    if (operator === "!=") return String(entry ?? "") !== value;
    return false;
  }

  // The rows for which all terms hold; `column(key)` gives the values of a column.
  function rows(terms, count, column, texts) {
    const columns = terms.map((term) => (term.key === undefined ? null : column(term.key)));
    const found = [];
    for (let row = 0; row < count; row += 1) {
      const kept = terms.every((term, k) => {
        if (term.error) return true;
        if (term.key !== undefined) return holds(term, columns[k][row]);
        const has = String(row) === term.word || texts.some((values) => String(values[row] ?? "").toLowerCase().includes(term.word));
        return has !== term.not;
      });
      if (kept) found.push(row);
    }
    return found;
  }

  // The text with the bounds of a column replaced; `bounds` null removes them.
  function between(text, keys, key, bounds) {
    const others = parse(text, keys).filter((term) => !term.error && (term.key !== key || term.operator === "="));
    const round = (value) => Number(value.toPrecision(5));
    if (bounds) others.push({ key, operator: ">=", value: round(bounds[0]) }, { key, operator: "<=", value: round(bounds[1]) });
    return write(others);
  }

  return { between, parse, rows, write };
})();
