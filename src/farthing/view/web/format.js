// Numbers and amounts as text, as `budget/units.py` writes them.
"use strict";

const format = (() => {
  const SIGNS = { usd: "$", eur: "€", gbp: "£" };
  const strip = (digits) => (digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits);
  const grouped = (value, digits) => value.toLocaleString("en-US", {
    minimumFractionDigits: digits, maximumFractionDigits: digits });

  // Python's format(value, ".{digits}g").
  function general(value, digits) {
    if (value === 0) return "0";
    const [mantissa, power] = value.toExponential(digits - 1).split("e");
    const exponent = Number(power);
    if (exponent >= -4 && exponent < digits) return strip(value.toFixed(Math.max(digits - 1 - exponent, 0)));
    const shown = String(Math.abs(exponent)).padStart(2, "0");
    return `${strip(mantissa)}e${exponent < 0 ? "-" : "+"}${shown}`;
  }

  function number(value) {
    return typeof value === "number" ? general(value, 6) : value === null || value === undefined ? "" : String(value);
  }

  function duration(seconds) {
    if (seconds === 0) return "0 s";
    if (seconds < 0.9995) return `${general(1e3 * seconds, 3)} ms`;
    if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
    const two = (rest) => String(rest).padStart(2, "0");
    if (seconds < 3599.5) {
      const whole = Math.round(seconds);
      return `${Math.floor(whole / 60)} m ${two(whole % 60)} s`;
    }
    const minutes = Math.round(seconds / 60);
    return `${grouped(Math.floor(minutes / 60), 0)} h ${two(minutes % 60)} m`;
  }

  function amount(resource, value) {
    if (value === null || value === undefined) return "";
    if (value < 0) return `-${amount(resource, -value)}`;
    if (resource === "s") return duration(value);
    if (resource === "worker_s") return `${duration(value)} of worker time`;
    if (SIGNS[resource]) {
      if (!(value > 0 && value < 0.0995)) return SIGNS[resource] + grouped(value, 2);
      return SIGNS[resource] + strip(value.toFixed(1 - Math.floor(Math.log10(value))));
    }
    if (resource === "trials") return `${grouped(value, 0)} trial${value === 1 ? "" : "s"}`;
    const short = value >= 100 && value < 1e6 ? grouped(value, 0) : general(value, 3);
    return resource === "cost" ? short : `${short} ${resource}`;
  }

  // {usd: 3.5, s: 90} as "$3.50, 1 m 30 s".
  const amounts = (costs) => Object.entries(costs).map(([r, a]) => amount(r, a)).join(", ");
  const count = (value) => grouped(value, 0);

  return { amount, amounts, count, duration, general, number };
})();
