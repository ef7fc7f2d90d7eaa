// Explorable figures of calibkit: <calibkit-explorable kind="…" numbers="…">still picture</…>.
//
// One plain script for the book, JupyterLab and the report: no library, no network, no kernel. The
// element draws into a shadow root, which hides the still picture inside it; where scripts are off
// there is no shadow root, and the picture stays. Python prepares the numbers (explorable.py) and
// the tests compare each number shown with calibkit.metrics.
(() => {
  "use strict";
  if (customElements.get("calibkit-explorable")) return; // several outputs bring the same script

  // ------------------------------------------------------------------ numbers: as calibkit.metrics

  const Z2 = 1.959963984540054 ** 2;

  /** 95 % Wilson score interval of a proportion. */
  function wilson(successes, n) {
    if (!n) return [NaN, NaN];
    const p = successes / n;
    const centre = (p + Z2 / (2 * n)) / (1 + Z2 / n);
    const half = Math.sqrt(Z2 * ((p * (1 - p)) / n + Z2 / (4 * n * n))) / (1 + Z2 / n);
    return [centre - half, centre + half];
  }

  const bytes = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

  /**
   * Logits as explorable.py packs them: per sample the margins of the classes to the top one, the
   * first in 14 bits beside two that say which class is the true one (0: the top, 1 or 2: that of
   * the first or second margin), the others in 8. If `counted`, a byte says how many classes have
   * the last margin; else it is one.
   */
  function unpack(packed) {
    const raw = bytes(packed.base64), { n, columns, counted, top, bend } = packed;
    const width = columns + 1 + counted;
    const margin = (code, most) => (top * Math.expm1((bend * code) / most)) / Math.expm1(bend);
    const fine = new Uint16Array(n), truth = new Uint8Array(n);
    const coarse = new Uint8Array(n * (columns - 1)), copies = new Uint8Array(n).fill(1);
    for (let i = 0; i < n; i++) {
      const word = raw[i * width] + 256 * raw[i * width + 1];
      fine[i] = word >> 2;
      truth[i] = word & 3;
      coarse.set(raw.subarray(i * width + 2, i * width + columns + 1), i * (columns - 1));
      if (counted) copies[i] = raw[(i + 1) * width - 1];
    }
    const fineMargin = Float64Array.from({ length: 16384 }, (_, code) => margin(code, 16383));
    const coarseMargin = Float64Array.from({ length: 256 }, (_, code) => margin(code, 255));
    return { n, columns, copies, fine, truth, coarse, fineMargin, coarseMargin };
  }

  /** Confidences of right and of wrong predictions in ascending order, and the NLL, at T. */
  function scores(data, temperature) {
    const { n, columns, copies, fine, truth, coarse } = data;
    const fineTerm = data.fineMargin.map((m) => Math.exp(-m / temperature));
    const coarseTerm = data.coarseMargin.map((m) => Math.exp(-m / temperature));
    const right = [], wrong = [];
    let nll = 0;
    for (let i = 0, at = 0; i < n; i++, at += columns - 1) {
      let total = 1 + fineTerm[fine[i]];
      for (let j = 0; j < columns - 1; j++) total += coarseTerm[coarse[at + j]];
      if (copies[i] > 1) total += (copies[i] - 1) * coarseTerm[coarse[at + columns - 2]];
      nll += Math.log(total);
      if (truth[i] === 1) nll += data.fineMargin[fine[i]] / temperature;
      if (truth[i] === 2) nll += data.coarseMargin[coarse[at]] / temperature;
      (truth[i] ? wrong : right).push(1 / total);
    }
    return {
      n,
      right: Float64Array.from(right).sort(),
      wrong: Float64Array.from(wrong).sort(),
      nll: nll / n,
      accuracy: right.length / n,
    };
  }

  /** Chance that a right prediction is the more confident one; a tie counts one half. */
  function auroc({ right, wrong }) {
    let wins = 0, below = 0, upto = 0;
    for (const c of right) {
      while (below < wrong.length && wrong[below] < c) below++;
      while (upto < wrong.length && wrong[upto] <= c) upto++;
      wins += (below + upto) / 2;
    }
    return wins / (right.length * wrong.length);
  }

  /** Count, right, sums of c, 1 - c and (1 - c)² per bin; bins are (lo, hi], or of equal count. */
  function binned({ n, right, wrong }, bins, scheme) {
    const table = Array.from({ length: bins }, () => ({ count: 0, right: 0, sum: 0, doubt: 0, doubt2: 0 }));
    const edges = Float64Array.from({ length: bins + 1 }, (_, i) => (i === bins ? 1 : i * (1 / bins)));
    const add = (row, c, isRight) => {
      row.count++;
      row.right += isRight;
      row.sum += c;
      row.doubt += 1 - c;
      row.doubt2 += (1 - c) ** 2;
    };
    if (scheme === "equal_width") {
      for (const [values, isRight] of [[right, 1], [wrong, 0]]) {
        let b = 0; // values ascend
        for (const c of values) {
          while (b < bins - 1 && c > edges[b + 1]) b++;
          add(table[b], c, isRight);
        }
      }
    } else { // by how many samples lie strictly below: ties stay together
      let i = 0, j = 0, b = 0;
      while (i + j < n) {
        const below = i + j;
        const c = Math.min(i < right.length ? right[i] : 2, j < wrong.length ? wrong[j] : 2);
        if (!below) edges[0] = c;
        const row = table[Math.min(Math.floor((below * bins) / n), bins - 1)];
        for (; i < right.length && right[i] === c; i++) add(row, c, 1);
        for (; j < wrong.length && wrong[j] === c; j++) add(row, c, 0);
        for (; b < bins && (i + j) * bins >= (b + 1) * n; b++) edges[b + 1] = c;
      }
    }
    return { n, edges, rows: table };
  }

  const ece = ({ n, rows }) => rows.reduce((sum, r) => sum + Math.abs(r.right - r.sum), 0) / n;

  /** log Γ(x) for x > 0: Stirling's series, after moving x to where it converges. */
  function logGamma(x) {
    let shift = 0;
    for (; x < 12; x++) shift -= Math.log(x);
    const y = 1 / (x * x);
    const series = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x;
    return shift + (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series;
  }

  /** ECE that chance alone would show: metrics.ece_floor, with de Moivre's mean deviation. */
  function eceFloor({ n, rows }) {
    let sum = 0;
    for (const { count, doubt, doubt2 } of rows) {
      const common = doubt > count / 2;
      const mean = common ? count - doubt : doubt;
      if (!(mean > 1e-12 * Math.max(count, 1))) continue;
      let square = common ? count - 2 * doubt + doubt2 : doubt2;
      square = Math.min(Math.max(square, (mean * mean) / count), mean);
      const p = square / mean, trials = (mean * mean) / square, k = Math.floor(mean) + 1;
      if (p >= 1) continue;
      const log = logGamma(trials + 1) - logGamma(k + 1) - logGamma(trials - k + 1);
      sum += 2 * k * Math.exp(log + k * Math.log(p) + (trials - k + 1) * Math.log1p(-p));
    }
    return sum / n;
  }

  // --- losses: the gradient in the logits of one sample. `p` are the probabilities, y the place of
  // the true class, w how many classes a place stands for; each function fills g.

  function residualWeight(p, y, w, gamma, beta) { // (‖p - y‖_β)^γ and that norm
    let sum = 0;
    for (let j = 0; j < p.length; j++) sum += w[j] * Math.abs(p[j] - (j === y)) ** beta;
    return [sum ** (gamma / beta), sum ** (1 / beta)];
  }
  const scaled = (factor) => (g, p, y, w, gamma, beta) => {
    const u = factor(p, y, gamma, w, beta);
    for (let j = 0; j < p.length; j++) g[j] = u * (p[j] - (j === y));
  };
  const xlogx = (a, p) => (p > 0 ? a * Math.log(p) : 0);
  const GRADIENTS = {
    cross_entropy: scaled(() => 1),
    focal: scaled((p, y, gamma) => {
      const q = Math.max(1 - p[y], 1e-300);
      return q ** gamma - xlogx(gamma * p[y] * q ** (gamma - 1), p[y]);
    }),
    inverse_focal: scaled((p, y, gamma) => {
      const q = 1 + p[y];
      return q ** gamma + xlogx(gamma * p[y] * q ** (gamma - 1), p[y]);
    }),
    focal_gra: scaled((p, y, gamma) => (1 - p[y]) ** gamma),
    dual_focal: (g, p, y, w, gamma) => { // also through the rival, whose equals share it
      let rival = 0, alike = 0;
      p.forEach((q, j) => {
        if (!(q < p[y])) return;
        if (q > rival) [rival, alike] = [q, 0];
        if (q === rival) alike += w[j];
      });
      const u = Math.max(1 - p[y] + rival, 1e-300), slope = gamma * u ** (gamma - 1) * Math.log(Math.max(p[y], 1e-300));
      const own = slope * p[y] - u ** gamma;
      for (let j = 0; j < p.length; j++) {
        g[j] = own * ((j === y) - p[j]) - slope * rival * ((rival && p[j] === rival ? 1 / alike : 0) - p[j]);
      }
    },
    dual_focal_gra: scaled((p, y, gamma) => {
      let rival = 0;
      for (const q of p) if (q < p[y] && q > rival) rival = q;
      return (1 - p[y] + rival) ** gamma;
    }),
    bsce_gra: scaled((p, y, gamma, w, beta) => residualWeight(p, y, w, gamma, beta)[0]),
    bsce: (g, p, y, w, gamma, beta) => {
      const [u, norm] = residualWeight(p, y, w, gamma, beta);
      const loss = -Math.log(Math.max(p[y], 1e-300));
      const v = p.map((q, j) => {
        const r = q - (j === y);
        return norm > 0 ? Math.sign(r) * (Math.abs(r) / norm) ** (beta - 1) : 0;
      });
      const mean = v.reduce((sum, value, j) => sum + w[j] * p[j] * value, 0);
      const slope = norm > 0 ? loss * gamma * norm ** (gamma - 1) : 0;
      for (let j = 0; j < p.length; j++) g[j] = u * (p[j] - (j === y)) + slope * p[j] * (v[j] - mean);
    },
    brier: (g, p, y, w) => {
      let mean = 0;
      for (let j = 0; j < p.length; j++) mean += w[j] * p[j] * (p[j] - (j === y));
      for (let j = 0; j < p.length; j++) g[j] = 2 * p[j] * (p[j] - (j === y) - mean);
    },
  };

  /** Brier score and last-layer gradient norm, ‖∂L/∂z‖ √(‖h‖² + 1), of every sample. */
  function gradientNorms(data, features, loss, gamma, beta) {
    const { n, columns, copies, fine, truth, coarse, fineMargin, coarseMargin } = data;
    const brier = new Float64Array(n), norm = new Float64Array(n);
    const p = new Array(columns + 1), g = new Array(columns + 1);
    const w = new Array(columns + 1).fill(1);
    for (let i = 0, at = 0; i < n; i++, at += columns - 1) {
      p[0] = 1;
      w[columns] = copies[i];
      p[1] = Math.exp(-fineMargin[fine[i]]);
      for (let j = 0; j < columns - 1; j++) p[j + 2] = Math.exp(-coarseMargin[coarse[at + j]]);
      const total = p.reduce((sum, value, j) => sum + w[j] * value, 0);
      for (let j = 0; j <= columns; j++) p[j] /= total;
      GRADIENTS[loss](g, p, truth[i], w, gamma, beta);
      let square = 0;
      for (let j = 0; j <= columns; j++) {
        brier[i] += w[j] * (p[j] - (j === truth[i])) ** 2;
        square += w[j] * g[j] ** 2;
      }
      norm[i] = Math.sqrt(square * (features[i] ** 2 + 1));
    }
    return { brier, norm };
  }

  function quantile(ascending, q) { // as numpy: linear between neighbours
    const at = q * (ascending.length - 1), low = Math.floor(at);
    const high = Math.min(low + 1, ascending.length - 1);
    return ascending[low] + (at - low) * (ascending[high] - ascending[low]);
  }

  // ------------------------------------------------------------------------------- words

  const NB = "\u00a0";
  const signed = (text) => text.replace("-", "−");
  const fixed = (value, digits = 2) =>
    Number.isFinite(value) ? signed((value.toFixed(digits) * 1 || 0).toFixed(digits)) : "–";
  /** In per cent; what is nearly nothing or nearly all gets the digits that say how nearly. */
  const percent = (value, digits = 1) => {
    if (!Number.isFinite(value)) return "–";
    const short = value > 0 && value < 1 ? 100 * Math.min(value, 1 - value) : 1;
    while (digits < 5 && short < 0.5 * 10 ** -digits) digits++;
    return `${fixed(100 * value, digits)}${NB}%`;
  };
  const count = (value) => value.toLocaleString("en");
  const change = (value, digits, unit = "") => {
    const text = fixed(value, digits);
    return /[1-9]/.test(text) ? `${value > 0 ? "+" : ""}${text}${unit}` : "±0";
  };
  /** A confidence with two digits of what it lacks to 1, or all it has if it is a short decimal. */
  const decimals = (c) => {
    if (!(c > 0 && c < 1)) return `${c}`;
    const least = Math.max(1 - Math.floor(Math.log10(1 - c)), 2), own = `${c}`.length - 2;
    return c.toFixed(own <= 12 ? Math.max(least, own) : least);
  };

  // ------------------------------------------------------------------------------- page elements

  const escape = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child != null && child !== false));
    return node;
  }

  let made = 0; // for ids, which labels need

  /** A native slider with its label and its value in words; `node.value` gets and sets a number. */
  function slider({ label, min, max, step, value, words, oninput, bare = false, name }) {
    const id = `explorable-${++made}`;
    const output = make("output", { for: id });
    const input = make("input", { type: "range", id, min, max, step, name });
    const node = make("div", { class: bare ? "slider bare" : "slider" },
      make("label", { for: id }, label), output, input);
    const show = () => {
      const text = words(node.value);
      output.textContent = text;
      input.setAttribute("aria-valuetext", text);
      input.style.setProperty("--part", (input.value - min) / (max - min));
    };
    let exact = value;
    Object.defineProperty(node, "value", {
      get: () => exact,
      set: (next) => {
        exact = next;
        input.value = next;
        show();
      },
    });
    input.addEventListener("input", () => {
      exact = Number(input.value);
      show();
      oninput();
    });
    node.input = input;
    node.value = value;
    return node;
  }

  /** One of several: buttons that radio inputs make, for the arrow keys. */
  function choice({ label, options, value, oninput, name }) {
    const group = `explorable-${++made}`;
    const node = make("fieldset", { class: "choice", name }, make("legend", {}, label));
    node.value = value;
    for (const option of options) {
      const input = make("input", {
        type: "radio", name: group, value: option.value, checked: option.value === value,
        oninput: () => {
          node.value = option.value;
          oninput();
        },
      });
      const dot = option.color ? make("i", { style: `--of: ${option.color}` }) : null;
      node.append(make("label", {}, input, make("span", {}, dot, option.label)));
    }
    return node;
  }

  /** A number with its name; `show(value, note)`. */
  function tile(name, label, hint) {
    const value = make("b", { "data-number": name }), note = make("small");
    const node = make("div", { class: "tile", title: hint }, make("span", {}, label), value, note);
    node.show = (text, more = "") => {
      value.textContent = text;
      note.textContent = more;
    };
    return node;
  }

  // ------------------------------------------------------------------------------- drawing

  const SHAPES = { linear: (v) => v, log: Math.log10, root: (v) => Math.sign(v) * Math.sqrt(Math.abs(v)) };
  function scale(shape, [from, to], [start, end]) {
    const f = SHAPES[shape], a = f(from), b = f(to);
    return (v) => start + ((f(v) - a) / (b - a)) * (end - start);
  }

  function niceTicks(low, high, wanted = 5) {
    const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((s) => s * power >= rough) * power;
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(i * step);
    return ticks;
  }
  function powerTicks(low, high) {
    const ticks = [];
    for (let e = Math.ceil(Math.log10(low)); 10 ** e <= high; e++) ticks.push(e);
    const every = Math.ceil(ticks.length / 6);
    return ticks.filter((e) => e % every === 0).map((e) => 10 ** e);
  }
  const POWER = ["⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"];
  const raised = (e) => String(e).replace(/./g, (c) => POWER[c] ?? { "-": "⁻", ".": "·" }[c]);
  const power = (v) => `10${raised(Math.round(Math.log10(v)))}`;

  const at = (v) => v.toFixed(1);
  const line = (points, more) =>
    `<path d="M${points.map(([x, y]) => `${at(x)},${at(y)}`).join("L")}" fill="none" ${more}/>`;
  const area = (points, more) => `<path d="M${points.map(([x, y]) => `${at(x)},${at(y)}`).join("L")}Z" ${more}/>`;
  const words = (x, y, text, more = "") => `<text x="${at(x)}" y="${at(y)}" ${more}>${escape(text)}</text>`;

  /** A picture that is drawn anew, in the pixels that it has, whenever something moves. */
  class Picture {
    constructor(label, height, margin = {}) {
      this.svg = make("div");
      this.svg.innerHTML = '<svg role="img"></svg>';
      this.svg = this.svg.firstChild;
      this.svg.setAttribute("aria-label", label);
      this.height = height;
      this.margin = { left: 50, right: 12, top: 12, bottom: 44, ...margin };
    }
    /** Axes, grid and labels; then `draw` returns what stands in them. */
    draw({ x, y, inside }) {
      const width = this.svg.clientWidth || 340;
      const height = typeof this.height === "function" ? this.height(width) : this.height;
      const { left, right, top, bottom } = this.margin;
      this.box = { left, right: width - right, top, bottom: height - bottom };
      this.x = scale(x.shape || "linear", x.domain, [left, width - right]);
      this.y = scale(y.shape || "linear", y.domain, [height - bottom, top]);
      const text = x.text || ((v) => signed(`${+v.toPrecision(6)}`));
      const ytext = y.text || ((v) => signed(`${+v.toPrecision(6)}`));
      const parts = [];
      for (const tick of y.ticks) {
        const place = this.y(tick);
        parts.push(`<path class="grid" d="M${left},${at(place)}H${width - right}"/>`);
        parts.push(words(left - 7, place + 4, ytext(tick), 'text-anchor="end"'));
      }
      for (const tick of x.ticks) {
        const place = this.x(tick);
        parts.push(`<path class="grid" d="M${at(place)},${top}V${height - bottom}"/>`);
        parts.push(words(place, height - bottom + 17, text(tick), 'text-anchor="middle"'));
      }
      parts.push(`<path class="axis" d="M${left},${top}V${height - bottom}H${width - right}"/>`);
      parts.push(words((left + width - right) / 2, height - 7, x.label, 'text-anchor="middle" class="name"'));
      const middle = (top + height - bottom) / 2;
      parts.push(words(13, middle, y.label, `text-anchor="middle" class="name" transform="rotate(-90 13 ${at(middle)})"`));
      parts.push(inside());
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.svg.setAttribute("height", height);
      this.svg.innerHTML = parts.join("");
    }
    /** Words in a corner, on the ground of the page so that nothing runs through them. */
    note(text, lower = null) {
      const x = lower == null ? this.box.left + 8 : this.box.right - 8;
      const y = lower == null ? this.box.top + 16 : lower - 8 - 16 * (text.length - 1);
      const anchor = lower == null ? "start" : "end";
      return text.map((row, i) => words(x, y + 16 * i, row, `text-anchor="${anchor}" class="note"`)).join("");
    }
  }

  /** A curve without axes and where on it we are. */
  function spark(points, here, width = 104, height = 26) {
    const finite = points.filter(([, y]) => Number.isFinite(y));
    if (finite.length < 2) return "";
    const ys = finite.map(([, y]) => y);
    let low = Math.min(...ys), high = Math.max(...ys);
    const room = Math.max(high - low, 0.02) / 2, centre = (low + high) / 2; // noise stays flat
    [low, high] = [centre - room, centre + room];
    const x = scale("linear", [finite[0][0], finite[finite.length - 1][0]], [3, width - 3]);
    const y = scale("linear", [low, high], [height - 4, 4]);
    const dot = Number.isFinite(here[1])
      ? `<circle cx="${at(x(here[0]))}" cy="${at(Math.min(Math.max(y(here[1]), 3), height - 3))}" r="3.4"/>` : "";
    return `<svg class="spark" viewBox="0 0 ${width} ${height}" preserveAspectRatio="xMinYMid" aria-hidden="true">${
      line(finite.map(([a, b]) => [x(a), y(b)]), 'class="trace"')}${dot}</svg>`;
  }

  /** Confidence histograms of right and wrong: densities on a root axis, as in the still figures. */
  function histogram(picture, edges, found, more) {
    const bins = edges.length - 1;
    const density = (counts) => {
      const total = counts.reduce((a, b) => a + b, 0);
      return counts.map((c) => (total ? (c * bins) / total : 0));
    };
    const right = density(found.right), wrong = density(found.wrong);
    const most = more.most || Math.max(...right, ...wrong, 1);
    picture.draw({
      x: { domain: [0, 1], ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], label: "Confidence" },
      y: {
        shape: "root", domain: [0, most * 1.06], label: "Density (square-root axis)",
        ticks: [0, 1, 5, 10, 20, 50].filter((t) => t <= most * 1.06),
      },
      inside: () => {
        const parts = [];
        for (const [values, name] of [[right, "right"], [wrong, "wrong"]]) {
          const outline = [];
          values.forEach((v, i) => outline.push(
            [picture.x(edges[i]), picture.y(v)], [picture.x(edges[i + 1]), picture.y(v)]));
          const [first, last] = [picture.x(edges[0]), picture.x(edges[bins])];
          const zero = picture.y(0);
          parts.push(area([[first, zero], ...outline, [last, zero]], `class="fill ${name}"`));
          parts.push(line(outline, `class="edge ${name}"`));
        }
        return parts.join("") + more.inside();
      },
    });
  }

  const legend = (picture, x, y, rows) => rows.map(([name, text], i) =>
    `<rect x="${at(x)}" y="${at(y + 17 * i - 9)}" width="13" height="10" rx="2" class="fill ${name}"/>` +
    words(x + 19, y + 17 * i, text, 'class="note"')).join("");

  // ------------------------------------------------------------------------------- 1. reliability

  function reliability(root, data) {
    const models = data.models.map((model) => ({ ...model, ...unpack(model.packed), cache: new Map() }));
    const first = 2, steps = 40; // the temperature from 1/4 to 4
    const grid = Array.from({ length: steps + 1 }, (_, i) => -first + (2 * first * i) / steps);
    const rounded = (x) => Number((2 ** x).toFixed(2));
    const update = () => root.request();
    const picture = new Picture("Reliability diagram: accuracy against confidence in bins", (w) => Math.min(w * 1.02, 400));
    const which = models.length > 1 && choice({
      label: "Model", value: "0", name: "model", oninput: update,
      options: models.map((m, i) => ({ value: `${i}`, label: m.label, color: m.color })),
    });
    const model = () => models[which ? Number(which.value) : 0];
    const hot = slider({ // its value is log2 T; T has the two digits that are shown
      label: "Temperature", name: "temperature", min: -first, max: first, step: 0.02, value: 0,
      words: (v) => fixed(rounded(v), 2), oninput: update,
    });
    const pin = (value) => { hot.value = Math.log2(value); update(); };
    const one = make("button", { type: "button", onclick: () => pin(1) }, "as trained");
    const fitted = make("button", { type: "button", onclick: () => pin(model().temperature) });
    const bins = slider({
      label: "Bins", name: "bins", min: 2, max: 50, step: 1, value: data.bins,
      words: (v) => `${v}`, oninput: update,
    });
    const scheme = choice({
      label: "Bins of", value: "equal_width", name: "scheme", oninput: update,
      options: [{ value: "equal_width", label: "equal width" }, { value: "equal_mass", label: "equal mass" }],
    });
    const tiles = {
      ece: tile("ece", "ECE", "Expected calibration error: the mean gap between confidence and accuracy"),
      floor: tile("floor", "if it were calibrated", "What a calibrated model would show by chance with these confidences and bins"),
      nll: tile("nll", "NLL", "Negative log-likelihood, in nats"),
      accuracy: tile("accuracy", "Accuracy", "A temperature changes no answer"),
      auroc: tile("auroc", "AUROC", "Chance that a right answer has the higher confidence than a wrong one"),
    };
    root.place({
      head: which, plots: [picture.svg], beside: true,
      side: [hot, make("div", { class: "buttons" }, one, fitted), bins, scheme,
        make("div", { class: "tiles two" }, ...Object.values(tiles))],
      tiles: [],
    });

    const scored = (m, t) => {
      if (!m.cache.has(t)) {
        if (m.cache.size > 300) m.cache.clear();
        const found = scores(m, t);
        m.cache.set(t, { ...found, auroc: auroc(found) });
      }
      return m.cache.get(t);
    };
    const shown = (found) => {
      const table = binned(found, bins.value, scheme.value);
      return { ...found, table, ece: ece(table), floor: eceFloor(table) };
    };
    // Curves over the temperature take a moment: they are computed between two movements.
    let waiting = null;
    function later(m) {
      clearTimeout(waiting);
      const missing = grid.map((x) => 2 ** x).filter((t) => !m.cache.has(t));
      if (!missing.length) return true;
      waiting = setTimeout(() => {
        for (const t of missing.slice(0, 4)) scored(m, t);
        root.request();
      }, 15);
      return false;
    }

    root.draw = () => {
      const m = model(), t = rounded(hot.value);
      const now = shown(scored(m, t)), before = shown(scored(m, 1));
      const { edges, rows } = now.table;
      const most = Math.max(...rows.map((r) => r.count));
      const floor = -0.2, room = 0.12;
      fitted.hidden = !m.temperature;
      fitted.textContent = m.temperature ? `fitted: T = ${fixed(m.temperature, 2)}` : "";
      one.setAttribute("aria-pressed", t === 1);
      fitted.setAttribute("aria-pressed", t === m.temperature);
      picture.draw({
        x: { domain: [0, 1], ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], label: "Confidence" },
        y: { domain: [floor, 1.02], ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], label: "Accuracy" },
        inside: () => {
          const parts = [], { x, y } = picture, top = y(floor + 0.01);
          parts.push(line([[x(0), y(0)], [x(1), y(1)]], 'class="ideal"'));
          rows.forEach((r, b) => {
            if (!r.count) return;
            const c = r.sum / r.count, a = r.right / r.count, [low, high] = wilson(r.right, r.count);
            const left = x(edges[b]), width = Math.max(x(edges[b + 1]) - left, 2);
            const pale = high - low >= 0.3 ? " pale" : "";
            const tip = `<title>${escape(`confidence ${fixed(c, 3)}, accuracy ${fixed(a, 3)}, ${count(r.count)} samples`)}</title>`;
            parts.push(`<g class="bin${pale}">${tip}` +
              `<rect x="${at(left)}" y="${at(y(Math.max(a, c)))}" width="${at(width)}" height="${at(Math.abs(y(a) - y(c)))}" class="fill ${a < c ? "wrong" : "right"}"/>` +
              `<path class="whisker" d="M${at(x(c))},${at(y(low))}V${at(y(high))}"/>` +
              `<circle cx="${at(x(c))}" cy="${at(y(a))}" r="4"/>` +
              `<rect class="share" x="${at(left + 0.5)}" y="${at(y(floor + 0.01 + (room * r.count) / most))}" width="${at(Math.max(width - 1, 1))}" height="${at(((room * r.count) / most) * (y(0) - y(1)))}"/></g>`);
          });
          parts.push(`<path class="axis" d="M${x(0)},${y(0)}H${x(1)}"/>`);
          parts.push(words(x(0) - 7, (top + y(0)) / 2 + 4, "share", 'text-anchor="end"'));
          const gap = now.table.rows.reduce((sum, r) => sum + r.sum - r.right, 0) / now.n;
          const corner = gap >= 0 ? null : y(0); // over-confidence leaves the upper one free
          parts.push(picture.note([`ECE ${percent(now.ece)}`, `conf. − acc. ${change(100 * gap, 1, `${NB}points`)}`], corner));
          return parts.join("");
        },
      });
      const points = `${NB}points`;
      tiles.ece.show(percent(now.ece, 2), t === 1 ? "" : change(100 * (now.ece - before.ece), 2, points));
      tiles.floor.show(percent(now.floor, 2), "by chance");
      tiles.nll.show(fixed(now.nll, 3), t === 1 ? "" : change(now.nll - before.nll, 3));
      tiles.accuracy.show(percent(now.accuracy, 2), "stays");
      tiles.auroc.show(percent(now.auroc, 2), t === 1 ? "" : change(100 * (now.auroc - before.auroc), 2, points));
      const ready = later(m);
      for (const [name, node] of Object.entries(tiles)) {
        node.querySelector("svg")?.remove();
        if (ready) {
          const curve = grid.map((g) => {
            const found = scored(m, 2 ** g);
            return [g, name in found ? found[name] : shown(found)[name]];
          });
          node.insertAdjacentHTML("beforeend", spark(curve, [Math.log2(t), now[name]]));
        }
      }
      const whole = m.total > m.n ? ` Of ${count(m.total)} samples a random ${count(m.n)} are shown.` : "";
      root.say(`At temperature ${fixed(t, 2)} the ECE is ${percent(now.ece, 2)}; a calibrated model would show ` +
        `${percent(now.floor, 2)} by chance; NLL ${fixed(now.nll, 3)}, accuracy ${percent(now.accuracy, 2)}, AUROC ${percent(now.auroc, 2)}.${whole}`);
    };
  }

  // ------------------------------------------------------------------------------- 2. histograms

  function histograms(root, data) {
    const { models, edges, steps, marks = [] } = data;
    const grid = Array.from({ length: steps + 1 }, (_, i) => i / steps);
    const stops = [...grid, ...marks].sort((a, b) => a - b);
    const nearest = (v) => stops.reduce((best, s, i) => Math.abs(s - v) < Math.abs(stops[best] - v) ? i : best, 0);
    const written = (t) => marks.includes(t) ? decimals(t) : t.toFixed(3);
    const update = () => root.request();
    const picture = new Picture("Histograms of the confidence of right and of wrong answers", 280);
    const which = models.length > 1 && choice({
      label: "Model", value: "0", name: "model", oninput: update,
      options: models.map((m, i) => ({ value: `${i}`, label: m.label, color: m.color })),
    });
    const threshold = slider({
      label: "Confidence threshold", name: "threshold", min: 0, max: stops.length - 1, step: 1,
      value: nearest(data.threshold), words: (i) => written(stops[i]), oninput: update,
    });
    const tiles = {
      coverage: tile("coverage", "Accepted", "Share of all answers"),
      risk: tile("risk", "Wrong among them", "Error rate of the accepted, with its 95 % interval"),
      through: tile("through", "Errors let through"),
      caught: tile("caught", "Errors caught"),
      lost: tile("lost", "Right answers turned away"),
    };
    root.place({ head: which, plots: [picture.svg, threshold], side: null, tiles: Object.values(tiles) });
    threshold.classList.add("under");
    // The line can be dragged in the picture too.
    const drag = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      const box = picture.svg.getBoundingClientRect(), { left, right } = picture.box;
      const v = (event.clientX - box.left - left) / (right - left);
      threshold.value = nearest(v);
      if (event.type === "pointerdown") picture.svg.setPointerCapture(event.pointerId);
      update();
    };
    picture.svg.addEventListener("pointerdown", drag);
    picture.svg.addEventListener("pointermove", drag);
    picture.svg.classList.add("drag");
    const most = Math.max(...models.flatMap((m) => [m.right, m.wrong].map((counts) =>
      (Math.max(...counts) * counts.length) / Math.max(counts.reduce((a, b) => a + b, 0), 1))));

    root.draw = () => {
      const m = models[which ? Number(which.value) : 0], i = threshold.value, t = stops[i];
      const right = m.accepted_right[i], wrong = m.accepted_wrong[i];
      const allRight = m.accepted_right[0], allWrong = m.accepted_wrong[0];
      const accepted = right + wrong, all = allRight + allWrong, [low, high] = wilson(wrong, accepted);
      histogram(picture, edges, m, {
        most,
        inside: () => {
          const { left, right: end, top, bottom } = picture.box, place = picture.x(t);
          return `<rect class="refused" x="${left}" y="${top}" width="${at(place - left)}" height="${bottom - top}"/>` +
            `<path class="threshold" d="M${at(place)},${top}V${bottom}"/>` +
            `<g class="grip" transform="translate(${at(place)} ${(top + bottom) / 2})"><rect x="-7" y="-15" width="14" height="30" rx="7"/><path d="M-2,-5V5M2,-5V5"/></g>` +
            legend(picture, left + 10, top + 16, [["right", `right (${count(allRight)})`], ["wrong", `wrong (${count(allWrong)})`]]) +
            words(left + 10, top + 52, `AUROC ${percent(m.auroc)}`, 'class="note"') +
            words(Math.min(place + 10, end - 60), top + 16, t < 0.8 ? "accept →" : "", 'class="note soft"');
        },
      });
      threshold.style.paddingLeft = `${picture.box.left - 11}px`;
      threshold.style.paddingRight = `${picture.margin.right - 11 < 0 ? 1 : picture.margin.right - 11}px`;
      tiles.coverage.show(percent(accepted / all), `${count(accepted)} of ${count(all)}`);
      tiles.risk.show(percent(accepted ? wrong / accepted : NaN), accepted ? `95${NB}%: ${fixed(100 * low, 1)} to ${percent(high)}` : "");
      tiles.through.show(count(wrong), `of ${count(allWrong)}`);
      tiles.caught.show(count(allWrong - wrong), percent((allWrong - wrong) / allWrong));
      tiles.lost.show(count(allRight - right), percent((allRight - right) / allRight));
      root.say(`A threshold of ${written(t)} answers ${percent(accepted / all)} of the cases; ` +
        `${percent(accepted ? wrong / accepted : NaN)} of these are wrong. It catches ${count(allWrong - wrong)} of ${count(allWrong)} errors ` +
        `and turns away ${count(allRight - right)} right answers.`);
    };
  }

  // ------------------------------------------------------------------------------- 3. overfitting

  function overfitting(root, data) {
    const { models, edges, metrics } = data, epochs = data.epochs;
    const update = () => root.request();
    const curve = new Picture("A metric over the epochs of training", 255, { left: 56 });
    const picture = new Picture("Histograms of the confidence of right and of wrong answers", 255);
    const which = models.length > 1 && choice({
      label: "Model", value: "0", name: "model", oninput: () => { play(false); update(); },
      options: models.map((m, i) => ({ value: `${i}`, label: m.label, color: m.color })),
    });
    const metric = choice({
      label: "Curve", value: metrics[0].key, name: "metric", oninput: update,
      options: metrics.map((m) => ({ value: m.key, label: m.label })),
    });
    const epoch = slider({
      label: "Epoch", name: "epoch", min: 0, max: epochs.length - 1, step: 1, value: epochs.length - 1,
      words: (i) => `${epochs[i]} of ${epochs[epochs.length - 1]}`, oninput: () => { play(false); update(); },
    });
    let timer = null;
    const button = make("button", { type: "button", class: "play", onclick: () => play(!timer) }, "▶ Play");
    function play(on) {
      clearInterval(timer);
      timer = null;
      button.textContent = on ? "❚❚ Stop" : "▶ Play";
      if (!on) return;
      if (epoch.value === epochs.length - 1) epoch.value = 0;
      timer = setInterval(() => {
        epoch.value += 1;
        if (epoch.value >= epochs.length - 1) play(false);
        update();
      }, Math.min(Math.max(6000 / epochs.length, 60), 400));
    }
    const tiles = Object.fromEntries(metrics.map((m) => [m.key, tile(m.key, m.label)]));
    root.place({
      head: which, wide: [metric], plots: [make("div", { class: "pair" }, curve.svg, picture.svg),
        make("div", { class: "scrub" }, button, epoch)],
      side: null, tiles: Object.values(tiles),
    });
    const pick = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      const box = curve.svg.getBoundingClientRect();
      const v = event.clientX - box.left;
      let best = 0;
      epochs.forEach((e, i) => { if (Math.abs(curve.x(e) - v) < Math.abs(curve.x(epochs[best]) - v)) best = i; });
      if (event.type === "pointerdown") curve.svg.setPointerCapture(event.pointerId);
      play(false);
      epoch.value = best;
      update();
    };
    curve.svg.addEventListener("pointerdown", pick);
    curve.svg.addEventListener("pointermove", pick);
    curve.svg.classList.add("drag");
    const show = (m, v) => (m.scale === 1 ? fixed(v, 3) : m.scale === 100 ? percent(v, 2) : fixed(m.scale * v, 1));

    root.draw = () => {
      const chosen = models[which ? Number(which.value) : 0], i = epoch.value;
      const m = metrics.find(({ key }) => key === metric.value);
      // The first tenth of training climbs so far that it would flatten the rest.
      const late = epochs.map((e) => e >= epochs[epochs.length - 1] / 10);
      const all = models.flatMap((model) => model.curves[m.key].filter((v, j) => late[j] && Number.isFinite(v)));
      let low = Math.min(...all), high = Math.max(...all);
      const room = 0.06 * (high - low) || 0.01;
      [low, high] = [low - room, high + room];
      curve.draw({
        x: { domain: [epochs[0], epochs[epochs.length - 1]], ticks: niceTicks(epochs[0], epochs[epochs.length - 1]).filter((v) => Number.isInteger(v)), label: "Epoch" },
        y: {
          domain: [low, high], ticks: niceTicks(low, high), label: m.label,
          text: (v) => signed(`${+(m.scale * v).toPrecision(4)}${m.scale === 100 ? `${NB}%` : ""}`),
        },
        inside: () => {
          const clip = `explorable-${++made}`, { left, right, top, bottom } = curve.box;
          const parts = [`<clipPath id="${clip}"><rect x="${left}" y="${top - 5}" width="${right - left + 5}" height="${bottom - top + 5}"/></clipPath><g clip-path="url(#${clip})">`];
          for (const model of [...models.filter((o) => o !== chosen), chosen]) {
            const path = model.curves[m.key].map((v, j) => [curve.x(epochs[j]), curve.y(v)]).filter(([, y]) => Number.isFinite(y));
            parts.push(line(path, `style="--of: ${model.color}" class="curve${model === chosen ? "" : " other"}"`));
          }
          const best = chosen.best[m.key], value = chosen.curves[m.key];
          parts.push(`<path class="threshold" d="M${at(curve.x(epochs[i]))},${top}V${bottom}"/>`);
          if (best != null) parts.push(`<circle class="best" style="--of: ${chosen.color}" cx="${at(curve.x(epochs[best]))}" cy="${at(curve.y(value[best]))}" r="5"/>`);
          parts.push(`<circle class="now" style="--of: ${chosen.color}" cx="${at(curve.x(epochs[i]))}" cy="${at(curve.y(value[i]))}" r="5"/></g>`);
          return parts.join("");
        },
      });
      const stored = chosen.snapshots.reduce((a, b) => Math.abs(b.epoch - epochs[i]) < Math.abs(a.epoch - epochs[i]) ? b : a);
      const most = Math.max(...chosen.snapshots.flatMap((s) => [s.right, s.wrong].map((counts) =>
        (Math.max(...counts) * counts.length) / Math.max(counts.reduce((a, b) => a + b, 0), 1))));
      histogram(picture, edges, stored, {
        most,
        inside: () => legend(picture, picture.box.left + 10, picture.box.top + 34, [["right", "right"], ["wrong", "wrong"]]) +
          words(picture.box.left + 10, picture.box.top + 16, `epoch ${stored.epoch}${stored.epoch === epochs[i] ? "" : " (the nearest stored)"}`, 'class="note strong"') +
          words(picture.box.left + 10, picture.box.top + 68, `AUROC ${percent(stored.auroc)}`, 'class="note"'),
      });
      const said = [];
      for (const each of metrics) {
        const values = chosen.curves[each.key], best = chosen.best[each.key], value = values[i];
        const from = best == null ? "" : best === i ? "its best" : `best ${show(each, values[best])}, epoch ${epochs[best]}`;
        tiles[each.key].show(show(each, value), from);
        tiles[each.key].classList.toggle("chosen", each.key === m.key);
        said.push(`${each.label} ${show(each, value)}`);
      }
      root.say(`After epoch ${epochs[i]}${models.length > 1 ? `, ${chosen.label}` : ""}: ${said.join(", ")}.`);
    };
  }

  // ------------------------------------------------------------------------------- 4. gradients

  function gradients(root, data) {
    const moments = data.moments.map((m) => {
      const raw = new Uint16Array(bytes(m.features.base64).buffer);
      return { epoch: m.epoch, samples: unpack(m.packed), features: Float64Array.from(raw, (v) => (v * m.features.top) / 65535) };
    });
    const losses = data.losses;
    const update = () => root.request();
    const picture = new Picture("Last-layer gradient norm against the Brier score of training samples", (w) => Math.min(w * 0.92, 390), { left: 58 });
    const id = `explorable-${++made}`;
    const loss = make("select", { id, name: "loss", oninput: update },
      ...losses.map((l) => make("option", { value: l.key, selected: l.key === data.loss }, l.label)));
    const gamma = slider({ label: "γ, exponent of the weight", name: "gamma", min: 0, max: 8, step: 0.5, value: data.gamma, words: (v) => `${v}`, oninput: update });
    const beta = slider({ label: "β, order of the norm", name: "beta", min: 1, max: 4, step: 0.5, value: data.beta, words: (v) => `${v}`, oninput: update });
    const when = moments.length > 1 && choice({
      label: "Epoch", value: "0", name: "epoch", oninput: update,  // late, all samples sit at zero
      options: moments.map((m, i) => ({ value: `${i}`, label: `${m.epoch}` })),
    });
    const axes = choice({
      label: "Axes", value: "linear", name: "axes", oninput: update,
      options: [{ value: "linear", label: "linear" }, { value: "log", label: "logarithmic" }],
    });
    const tiles = {
      spread: tile("spread", "Spread of equally wrong samples", "Interquartile range of the norms in tenths of the Brier score, per cent of the mean norm"),
      hardest: tile("hardest", "Half the gradient comes from", "The fewest samples whose gradient norms make up half of the sum of all"),
    };
    root.place({
      head: null, plots: [picture.svg],
      side: [make("div", { class: "select" }, make("label", { for: id }, "Loss"), loss), gamma, beta, when, axes],
      tiles: Object.values(tiles),
    });

    root.draw = () => {
      const { samples, features, epoch } = moments[when ? Number(when.value) : 0];
      const about = losses.find((l) => l.key === loss.value);
      gamma.input.disabled = !about.gamma;
      beta.input.disabled = !about.beta;
      const g = about.gamma ? gamma.value : 0;
      const { brier, norm } = gradientNorms(samples, features, loss.value, g, beta.value);
      const n = brier.length, log = axes.value === "log";
      const ordered = norm.slice().sort(), sortedBrier = brier.slice().sort();
      const limit = quantile(ordered, 0.999) || 1;
      const floorOf = (values, top) => {
        const from = values.findIndex((v) => v > 0);
        return Math.min(from < 0 ? top / 10 : quantile(values.slice(from), 0.01), top / 10);
      };
      const x0 = log ? floorOf(sortedBrier, 2) : 0, y0 = log ? floorOf(ordered, limit) : 0;
      // The median norm in twenty cells of the Brier score, where twenty samples are.
      const cells = Array.from({ length: 20 }, () => []);
      const place = log ? (b) => (b > 0 ? Math.floor((20 * Math.log(b / x0)) / Math.log(2 / x0)) : 0) : (b) => Math.floor(10 * b);
      for (let i = 0; i < n; i++) cells[Math.min(Math.max(place(brier[i]), 0), 19)].push(i);
      const bands = cells.filter((its) => its.length >= 20).map((its) => {
        const [b, v] = [brier, norm].map((values) => Float64Array.from(its, (i) => values[i]).sort());
        return [quantile(b, 0.5), quantile(v, 0.1), quantile(v, 0.5), quantile(v, 0.9)];
      });
      // A weight that is a power of ‖p - y‖₂ makes the norm one of the Brier score, times √(‖h‖² + 1).
      const exponent = loss.value === "cross_entropy" ? 0.5 : loss.value === "bsce_gra" && beta.value === 2 ? (g + 1) / 2 : null;
      const ratios = exponent == null ? [] : Float64Array.from(brier.keys()).map((i) => norm[i] / brier[i] ** exponent)
        .filter((v, i) => brier[i] > 0 && Number.isFinite(v)).sort();
      const factor = ratios.length ? quantile(ratios, 0.5) : NaN;
      const pulling = [...brier.keys()].filter((i) => norm[i] > 0).sort((a, b) => brier[a] - brier[b]);
      const most = Math.ceil(pulling.length / 10), larger = pulling.length % 10 || 10;  // of ten parts, as many have one more
      const ranges = Array.from({ length: 10 }, (_, k) => {
        const from = k * most - Math.max(k - larger, 0), size = k < larger ? most : most - 1;
        const its = Float64Array.from(pulling.slice(from, from + size), (i) => norm[i]).sort();
        return quantile(its, 0.75) - quantile(its, 0.25);
      });
      const mean = (values) => values.reduce((a, v) => a + v, 0) / values.length;
      const spread = pulling.length < 10 ? NaN : mean(ranges) / mean(pulling.map((i) => norm[i]));
      const sum = ordered.reduce((a, v) => a + v, 0);
      let hardest = 0;
      for (let reached = 0; reached < sum / 2; hardest++) reached += ordered[n - 1 - hardest];
      picture.draw({
        x: log ? { shape: "log", domain: [x0, 2], ticks: powerTicks(x0, 2), text: power, label: "Brier score (log axis)" }
          : { domain: [0, 2], ticks: [0, 0.5, 1, 1.5, 2], label: "Brier score of the training sample" },
        y: log ? { shape: "log", domain: [y0, limit], ticks: powerTicks(y0, limit), text: power, label: "Gradient norm (log axis)" }
          : { domain: [0, limit], ticks: niceTicks(0, limit), label: "Gradient norm, last layer" },
        inside: () => {
          const { x, y, box } = picture, parts = [];
          const clip = `explorable-${++made}`;
          parts.push(`<clipPath id="${clip}"><rect x="${box.left}" y="${box.top}" width="${box.right - box.left}" height="${box.bottom - box.top}"/></clipPath><g clip-path="url(#${clip})">`);
          let dots = "";
          for (let i = 0; i < n; i++) {
            if (log && !(brier[i] > 0 && norm[i] > 0)) continue;
            dots += `M${at(x(brier[i]))},${at(y(norm[i]))}h0`;
          }
          parts.push(`<path class="cloud" style="--of: ${about.color}" d="${dots}"/>`);
          if (bands.length > 1) {
            const up = bands.map(([b, , , high]) => [x(b), y(high)]), down = bands.map(([b, low]) => [x(b), y(low)]).reverse();
            parts.push(area([...up, ...down], 'class="band"'));
            parts.push(line(bands.map(([b, , mid]) => [x(b), y(mid)]), 'class="median"'));
          }
          if (Number.isFinite(factor)) {
            const law = Array.from({ length: 120 }, (_, i) => log ? x0 * (2 / x0) ** (i / 119) : (2 * i) / 119)
              .map((b) => [x(b), y(factor * b ** exponent)]).filter(([, v]) => Number.isFinite(v));
            parts.push(line(law, 'class="law"'));
          }
          parts.push("</g>");
          const rows = [["median", "median norm"], ...(Number.isFinite(factor) ? [["law", `∝ Brier score${raised(exponent)}`]] : [])];
          rows.forEach(([name, text], i) => {
            const where = box.top + 14 + 17 * i;
            parts.push(`<path class="${name}" d="M${box.left + 8},${where - 4}h20"/>` + words(box.left + 34, where, text, 'class="note"'));
          });
          return parts.join("");
        },
      });
      tiles.spread.show(percent(spread, 0), "of the mean gradient norm");
      tiles.hardest.show(percent(hardest / n), "of the samples");
      root.say(`${about.label}${about.gamma ? `, γ = ${g}` : ""}${about.beta ? `, β = ${beta.value}` : ""}: the gradients of equally wrong samples ` +
        `spread ${percent(spread, 0)}; ${percent(hardest / n)} of the samples make up half of the sum${epoch ? ` (epoch ${epoch})` : ""}.`);
    };
  }

  // ------------------------------------------------------------------------------- 5. risk and coverage

  function riskCoverage(root, data) {
    const { models, targets } = data;
    const update = () => root.request();
    const picture = new Picture("Error rate among the accepted against the share accepted", 320, { left: 56 });
    const exactly = (v) => `${+(100 * v).toFixed(2)}${NB}%`;
    const nearest = (v) => targets.reduce((best, t, i) => Math.abs(t - v) < Math.abs(targets[best] - v) ? i : best, 0);
    const target = slider({
      label: "Errors allowed among the accepted", name: "target", min: 0, max: targets.length - 1, step: 1,
      value: nearest(data.target), words: (i) => exactly(targets[i]), oninput: update,
    });
    const body = make("tbody");
    const table = make("table", {}, make("thead", {}, make("tr", {},
      ...["", "Threshold", "Accepted", "Wrong among them"].map((text) => make("th", { scope: "col" }, text)))), body);
    root.place({ head: null, plots: [picture.svg], side: [target, table], tiles: [] });
    const pick = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      const box = picture.svg.getBoundingClientRect(), { top, bottom } = picture.box;
      target.value = nearest(((bottom - (event.clientY - box.top)) / (bottom - top)) * ceiling);
      if (event.type === "pointerdown") picture.svg.setPointerCapture(event.pointerId);
      update();
    };
    picture.svg.addEventListener("pointerdown", pick);
    picture.svg.addEventListener("pointermove", pick);
    picture.svg.classList.add("drag", "rise");
    const ceiling = 1.06 * Math.max(targets[targets.length - 1], ...models.map((m) => m.risk[m.risk.length - 1]));

    root.draw = () => {
      const i = target.value, wanted = targets[i];
      picture.draw({
        x: { domain: [0, 1], ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], text: (v) => `${Math.round(100 * v)}${NB}%`, label: "Coverage (share accepted)" },
        y: { domain: [0, ceiling], ticks: niceTicks(0, ceiling), text: (v) => `${+(100 * v).toPrecision(3)}${NB}%`, label: "Risk (error rate)" },
        inside: () => {
          const { x, y, box } = picture, parts = [];
          const clip = `explorable-${++made}`;
          parts.push(`<clipPath id="${clip}"><rect x="${box.left}" y="${box.top}" width="${box.right - box.left}" height="${box.bottom - box.top}"/></clipPath><g clip-path="url(#${clip})">`);
          parts.push(`<rect class="allowed" x="${box.left}" y="${at(y(wanted))}" width="${box.right - box.left}" height="${at(box.bottom - y(wanted))}"/>`);
          parts.push(line([[box.left, y(wanted)], [box.right, y(wanted)]], 'class="threshold"'));
          for (const m of models) { // 95 % intervals at a fixed share, but where so few are accepted
            const ends = m.coverage.map((c, j) => [x(c), Math.round(c * m.n), m.risk[j]])
              .filter(([, accepted]) => accepted >= Math.min(100, m.n / 10))
              .map(([place, accepted, risk]) => [place, ...wilson(risk * accepted, accepted)]);
            if (ends.length < 2) continue;
            const low = ends.map(([place, value]) => [place, y(value)]).reverse();
            parts.push(area([...ends.map(([place, , value]) => [place, y(value)]), ...low], `class="near" style="--of: ${m.color}"`));
          }
          for (const m of models) {
            parts.push(line(m.coverage.map((c, j) => [x(c), y(m.risk[j])]), `class="curve" style="--of: ${m.color}"`));
          }
          parts.push("</g>");
          models.forEach((m, j) => {
            const accepted = m.accepted[i], wrong = m.wrong[i];
            if (accepted) {
              const [low, high] = wilson(wrong, accepted), across = x(accepted / m.n);
              parts.push(`<path class="drop" style="--of: ${m.color}" d="M${at(across)},${at(y(Math.min(wrong / accepted, ceiling)))}V${box.bottom}"/>`);
              parts.push(`<path class="whisker" style="--of: ${m.color}" d="M${at(across)},${at(y(low))}V${at(y(Math.min(high, ceiling)))}"/>`);
              parts.push(`<circle class="now" style="--of: ${m.color}" cx="${at(across)}" cy="${at(y(wrong / accepted))}" r="5.5"/>`);
            }
            parts.push(`<path class="curve" style="--of: ${m.color}" d="M${box.left + 10},${box.top + 12 + 17 * j}h18"/>` +
              words(box.left + 34, box.top + 16 + 17 * j, m.label, 'class="note"'));
          });
          return parts.join("");
        },
      });
      body.replaceChildren(...models.map((m) => {
        const accepted = m.accepted[i], wrong = m.wrong[i], [low, high] = wilson(wrong, accepted);
        const cell = (name, text, more) => make("td", {}, make("b", { "data-number": name }, text), make("small", {}, more));
        return make("tr", {},
          make("th", { scope: "row" }, make("i", { style: `--of: ${m.color}` }), `\u00a0${m.label}`),
          cell("threshold", accepted ? decimals(m.threshold[i]) : "none", ""),
          cell("coverage", percent(accepted / m.n), accepted ? count(accepted) : ""),
          cell("risk", percent(accepted ? wrong / accepted : NaN, 2), accepted ? `${fixed(100 * low, 1)} to ${percent(high)}` : ""));
      }));
      const parts = models.map((m) => `${m.label} answers ${percent(m.accepted[i] / m.n)}` +
        (m.accepted[i] ? `, ${percent(m.wrong[i] / m.accepted[i])} of them wrong` : ""));
      root.say(`Aimed at ${exactly(wanted)} errors: ${parts.join("; ")}. ${data.chosen}`);
    };
  }

  // ------------------------------------------------------------------------------- the element

  const KINDS = { reliability, histograms, overfitting, gradients, risk_coverage: riskCoverage };

  const STYLE = new CSSStyleSheet();
  STYLE.replaceSync(`
:host { display: block; container-type: inline-size; margin: 1rem 0; max-width: 58rem; color: var(--ink); text-align: left;
  font-size: clamp(13px, 0.92em, 15px); line-height: 1.45; overflow-wrap: normal;
  --ink: @ink; --soft: #5d6470; --line: #d5d9de; --grid: #e6e6e6; --panel: #f6f7f9;
  --accent: @accent; --right: @correct; --wrong: @wrong; --track: #cfd5dc; --weak: 0.4; }
:host([dark]) { --ink: @ink_dark; --soft: #a9b2bc; --line: #3d454f; --grid: #333a43; --panel: rgba(255,255,255,.05);
  --accent: @accent_dark; --right: #6ea3d8; --wrong: #f5828f; --track: #4a535e; --weak: 0.45; }
[style*="--of"] { --seen: var(--of); } /* a colour of a method, which must not drown in a dark page */
@supports (color: oklch(from red l c h)) { :host([dark]) [style*="--of"] { --seen: oklch(from var(--of) max(l, 0.7) c h); } }
* { box-sizing: border-box; }
[hidden] { display: none; }
.card { border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px 12px; }
.head, .wide { margin-bottom: 8px; }
.columns { display: grid; gap: 10px 22px; grid-template-columns: minmax(0, 1fr); align-items: start; }
.side { display: flex; flex-direction: column; gap: 12px; min-width: 0; }
.plots { min-width: 0; }
.pair { display: grid; gap: 8px; }
@container (min-width: 600px) {
  .columns.both { grid-template-rows: auto 1fr; grid-template-columns: minmax(0, 1.25fr) minmax(0, 1fr); }
  .pair { grid-template-columns: 1fr 1fr; }
  .both > .side { grid-row: span 2; } .both > .say { grid-column: 1; margin: 0; }
}
svg[role="img"] { display: block; width: 100%; overflow: visible; font: inherit; font-size: 12px; }
svg text { fill: var(--soft); font-variant-numeric: tabular-nums; }
svg .name { fill: var(--ink); font-size: 13px; }
svg .note { fill: var(--ink); font-size: 12.5px; paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
svg .note.soft { fill: var(--soft); } svg .note.strong { font-weight: 600; }
svg.drag { cursor: ew-resize; touch-action: pan-y; user-select: none; -webkit-user-select: none; }
svg.drag.rise { cursor: ns-resize; touch-action: pan-x; }
.grid { stroke: var(--grid); fill: none; }
.axis { stroke: var(--soft); opacity: .55; fill: none; }
.fill { fill-opacity: var(--weak); } .fill.right { fill: var(--right); } .fill.wrong { fill: var(--wrong); }
.edge { stroke-width: 1.3; } .edge.right { stroke: var(--right); } .edge.wrong { stroke: var(--wrong); }
.ideal { stroke: var(--soft); stroke-dasharray: 5 4; stroke-width: 1.3; }
.bin circle { fill: var(--ink); } .bin .whisker { stroke: var(--ink); stroke-width: 1.4; }
.bin.pale { opacity: .38; } .bin.pale .share { opacity: 1; }
.share { fill: var(--soft); opacity: .45; }
.refused { fill: var(--paper); opacity: .62; }
.allowed { fill: var(--accent); opacity: .09; }
.threshold { stroke: var(--ink); stroke-width: 1.6; fill: none; }
.grip rect { fill: var(--paper); stroke: var(--ink); stroke-width: 1.4; } .grip path { stroke: var(--soft); stroke-width: 1.3; }
.curve { stroke: var(--seen); stroke-width: 2.3; fill: none; stroke-linejoin: round; }
.curve.other { opacity: .38; stroke-width: 1.6; }
.near { fill: var(--seen); opacity: .13; }
.best { fill: var(--paper); stroke: var(--seen); stroke-width: 2; } .now { fill: var(--seen); stroke: var(--paper); stroke-width: 1.5; }
.drop { stroke: var(--seen); stroke-dasharray: 2 3; stroke-width: 1.3; fill: none; } .whisker { stroke: var(--seen, currentColor); stroke-width: 1.8; fill: none; }
.cloud { stroke: var(--seen); stroke-width: 4; stroke-linecap: round; fill: none; opacity: .35; }
.band { fill: var(--wrong); opacity: .18; } .median { stroke: var(--wrong); stroke-width: 2.4; fill: none; }
.law { stroke: var(--ink); stroke-dasharray: 6 4; stroke-width: 1.5; fill: none; }

.slider { display: grid; grid-template-columns: 1fr auto; align-items: baseline; }
.slider label, legend, .select label { color: var(--soft); font-size: .93em; }
.slider output { font-weight: 650; font-variant-numeric: tabular-nums; font-size: 1.06em; }
.slider input { grid-column: 1 / -1; }
.slider:has(input:disabled) { opacity: .4; }
.slider.under { margin-top: 2px; }
input[type="range"] { -webkit-appearance: none; appearance: none; width: 100%; height: 30px; margin: 0; background: none; cursor: pointer; touch-action: pan-y; }
input[type="range"]::-webkit-slider-runnable-track { height: 5px; border-radius: 3px;
  background: linear-gradient(var(--accent), var(--accent)) 0 / calc(11px + (100% - 22px) * var(--part)) no-repeat var(--track); }
input[type="range"]::-webkit-slider-thumb { -webkit-appearance: none; width: 22px; height: 22px; margin-top: -8.5px; border-radius: 50%;
  background: var(--accent); border: 3px solid var(--paper); box-shadow: 0 0 0 1px var(--accent), 0 1px 3px rgba(0,0,0,.35); }
input[type="range"]::-moz-range-track { height: 5px; border-radius: 3px; background: var(--track); }
input[type="range"]::-moz-range-progress { height: 5px; border-radius: 3px; background: var(--accent); }
input[type="range"]::-moz-range-thumb { width: 17px; height: 17px; border-radius: 50%; background: var(--accent); border: 3px solid var(--paper); box-shadow: 0 0 0 1px var(--accent); }
input[type="range"]:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 6px; }

.choice { border: 0; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: 6px; align-items: center; min-width: 0; }
.choice legend { float: left; padding: 0; margin-right: 4px; }
.choice label { position: relative; cursor: pointer; }
.choice input { position: absolute; opacity: 0; inset: 0; margin: 0; cursor: pointer; }
.choice span, button, select { font: inherit; font-size: .93em; color: var(--ink); background: var(--panel); border: 1px solid var(--line); border-radius: 999px; }
.choice span { display: inline-flex; gap: 6px; align-items: center; padding: 3px 11px; min-height: 30px; }
.choice input:checked + span { border-color: var(--accent); box-shadow: inset 0 0 0 1px var(--accent); font-weight: 600; }
.choice input:focus-visible + span, button:focus-visible, select:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
i { display: inline-block; width: 10px; height: 10px; border-radius: 50%; background: var(--seen); }
.buttons { display: flex; flex-wrap: wrap; gap: 6px; margin-top: -8px; }
button { padding: 3px 12px; min-height: 30px; cursor: pointer; }
button:hover, .choice span:hover { border-color: var(--accent); }
button[aria-pressed="true"] { border-color: var(--accent); box-shadow: inset 0 0 0 1px var(--accent); font-weight: 600; }
select { width: 100%; padding: 5px 10px; border-radius: 8px; min-height: 34px; background: var(--paper); }
.select { display: grid; gap: 3px; }
.scrub { display: grid; grid-template-columns: auto 1fr; gap: 16px; align-items: end; margin-top: 6px; }
.play { min-width: 6.2em; }

.tiles { display: grid; gap: 8px; margin-top: 12px; grid-template-columns: 1fr 1fr; }
.tiles.two { margin-top: 2px; }
.tile:last-child:nth-child(odd) { grid-column: 1 / -1; }
@container (min-width: 600px) {
  .tiles:not(.two) { grid-template-columns: repeat(auto-fit, minmax(112px, 1fr)); }
  .tiles:not(.two) .tile { grid-column: auto; }
}
.tile { background: var(--panel); border-radius: 8px; padding: 7px 10px 6px; display: flex; flex-direction: column; min-width: 0; }
.tile.chosen { box-shadow: inset 0 0 0 1px var(--accent); }
.tile span { color: var(--soft); font-size: .87em; }
.tile b { font-size: 1.28em; font-weight: 650; font-variant-numeric: tabular-nums; line-height: 1.25; white-space: nowrap; }
small { color: var(--soft); font-size: .8em; min-height: 1.35em; display: block; font-weight: 400; font-variant-numeric: tabular-nums; }
.spark { width: 100%; height: 28px; margin-top: 2px; } .spark .trace { stroke: var(--accent); stroke-width: 1.6; } .spark circle { fill: var(--ink); }
.say { margin: 10px 0 0; color: var(--soft); min-height: 2.9em; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 0 5px 10px; border-bottom: 1px solid var(--line); vertical-align: top; font-weight: 400; }
thead th { color: var(--soft); font-size: .87em; vertical-align: bottom; }
th:first-child { text-align: left; padding-left: 0; font-weight: 600; } th i { margin-right: 2px; }
@container (min-width: 760px) {
  th:first-child { white-space: nowrap; }
}
@container (max-width: 759px) {
  th, td { padding-left: 5px; }
}
td b { font-weight: 650; white-space: nowrap; } td small { white-space: nowrap; }
@media print { input, button, .choice { display: none; } }
`);

  /** The colour of the page behind a node, whoever has set it: red, green, blue. */
  function ground(node) {
    for (let up = node; up; up = up.parentElement || up.getRootNode().host) {
      const found = getComputedStyle(up).backgroundColor.match(/^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?/);
      if (found && Number(found[4] ?? 1) > 0.5) return found.slice(1, 4).map(Number);
    }
    const dark = matchMedia("(prefers-color-scheme: dark)").matches
      && getComputedStyle(document.documentElement).colorScheme.includes("dark");
    return dark ? [18, 18, 18] : [255, 255, 255];
  }

  class Explorable extends HTMLElement {
    connectedCallback() {
      if (!this.shadowRoot) this.build();
      this.watch();
      this.moved = () => this.restore();
      addEventListener("hashchange", this.moved);
    }
    disconnectedCallback() {
      removeEventListener("hashchange", this.moved);
      this.resized?.disconnect();
      this.restyled?.disconnect();
      if (this.scheme) this.scheme.onchange = null;
    }
    build() {
      const root = this.attachShadow({ mode: "open" });
      root.adoptedStyleSheets = [STYLE];
      const data = JSON.parse(this.getAttribute("numbers"));
      const card = make("div", { class: "card", role: "group", "aria-label": this.getAttribute("label") });
      const said = make("p", { class: "say", "aria-live": "polite" });
      const figure = {
        place: ({ head, wide = [], plots, side, tiles, beside = false }) => {
          const columns = make("div", { class: side ? "columns both" : "columns" },
            make("div", { class: "plots" }, ...plots), side && make("div", { class: "side" }, ...side.filter(Boolean)),
            beside && said); // under the picture, where the other column is the longer one
          card.append(...[head && make("div", { class: "head" }, head), wide.length && make("div", { class: "wide" }, ...wide),
            columns, tiles.length && make("div", { class: "tiles" }, ...tiles), !beside && said].filter(Boolean));
          root.append(card);
        },
        say: (text) => { said.textContent = text; },
        request: () => {
          this.frame ||= requestAnimationFrame(() => {
            this.frame = null;
            figure.draw();
          });
        },
      };
      KINDS[this.getAttribute("kind")](figure, data);
      this.figure = figure;
      this.restore();
      for (const event of ["input", "click", "pointerup", "keyup"]) root.addEventListener(event, () => this.share());
    }
    /** What stands where: `#explorable-2&temperature=0.8&bins=20`, the second figure of the page. */
    get place() {
      return `#explorable-${[...document.querySelectorAll("calibkit-explorable")].indexOf(this) + 1}`;
    }
    controls() {
      return [...this.shadowRoot.querySelectorAll("input[type=range], fieldset[name], select")]
        .map((node) => (node.type === "range" ? [node.name, node.parentElement, node] : [node.getAttribute("name"), node, node]));
    }
    share() {
      if (document.body.hasAttribute("data-jp-theme-light")) return; // JupyterLab's address is its own
      clearTimeout(this.sharing);
      this.sharing = setTimeout(() => { // browsers refuse many changes at a time
        const state = new URLSearchParams(this.controls().map(([name, node]) => [name, node.value]));
        history.replaceState(history.state, "", `${this.place}&${state}`);
      }, 300);
    }
    restore() {
      const [place, ...rest] = location.hash.split("&");
      if (place !== this.place) return;
      const state = new URLSearchParams(rest.join("&"));
      for (const [name, node, input] of this.controls()) {
        const value = state.get(name), number = Number(value);
        if (value === null) continue;
        if (input.type === "range") {
          if (number >= Number(input.min) && number <= Number(input.max)) node.value = number;
        } else if (input.matches("select")) {
          if ([...input.options].some((option) => option.value === value)) input.value = value;
        } else {
          const radio = [...node.querySelectorAll("input")].find((one) => one.value === value);
          if (radio) [radio.checked, node.value] = [true, value];
        }
      }
      this.figure.request();
      this.scrollIntoView({ block: "center" });
    }
    watch() {
      const look = () => {
        const [red, green, blue] = ground(this);
        this.toggleAttribute("dark", 0.299 * red + 0.587 * green + 0.114 * blue < 128);
        this.style.setProperty("--paper", `rgb(${red}, ${green}, ${blue})`);
        this.figure.request();
      };
      this.restyled = new MutationObserver(look);
      for (const node of [document.documentElement, document.body]) {
        this.restyled.observe(node, { attributes: true, attributeFilter: ["class", "style", "data-theme", "data-jp-theme-light"] });
      }
      this.scheme = matchMedia("(prefers-color-scheme: dark)");
      this.scheme.onchange = look;
      this.resized = new ResizeObserver(() => this.figure.request());
      this.resized.observe(this);
      look();
    }
  }

  // The book's dark pages put printed HTML on a light ground; this brings its own colours.
  const page = new CSSStyleSheet();
  page.replaceSync(`html[data-theme="dark"] .bd-content div.cell_output .text_html:has(calibkit-explorable):not(:has(table.dataframe)) { background: none; color: inherit; padding: 0; }
calibkit-explorable > img { max-width: 100%; height: auto; }`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, page];
  customElements.define("calibkit-explorable", Explorable);
})();
