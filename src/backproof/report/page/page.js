"use strict";
// Draws what the page carries as data. Text from the data is only ever set as text, never as markup.
const sections = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("content");
const dialog = document.querySelector("dialog");
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = () => innerWidth < 640;
const drawings = []; // functions that draw again, when the light or the width changes

function make(name, attributes = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...inside);
  return element;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;"); // plotly reads a little markup
const said = (text) => { document.getElementById("said").textContent = text; };
const facts = (pairs) => make("dl", {}, ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
const shown = (x) => (x === null ? "nothing" : x >= 1e29 ? "∞" : Number(x.toPrecision(4)).toString());
// No error at all has no place on a logarithmic axis: it is drawn a little below the least that there is.
const floor = (values) => Math.max(Math.min(1, ...values.filter((x) => x !== null && x > 0)) / 10, 1e-20);
const log = (x, least) => (x === null ? null : Math.log10(Math.min(Math.max(x, least), 1e12)));

function layout(extra) {
  const axis = { gridcolor: colour("rule"), zerolinecolor: colour("rule"), linecolor: colour("rule"), automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("ink"), family: "system-ui, sans-serif", size: 12 },
    margin: { l: 10, r: 10, t: 10, b: 10 }, hoverlabel: { font: { family: "system-ui, sans-serif" } }, dragmode: false,
    ...extra, xaxis: { ...axis, ...extra.xaxis }, yaxis: { ...axis, ...extra.yaxis },
  };
}
const settings = { displayModeBar: false, responsive: true };

// A plot is drawn anew when the light or the width changes: what plotly would keep of the last drawing does not all fit.
function drawn(plot, contents, choose) {
  const draw = async () => {
    await Plotly.newPlot(plot, ...contents(), settings);
    plot.on("plotly_click", ({ points: [point] }) => choose(point.x, point.y));
  };
  drawings.push(draw);
  queueMicrotask(draw);
  return plot;
}

// ── details ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function open(section, key) {
  const detail = section.details[key];
  if (!detail) return;
  const inside = dialog.querySelector(".detail");
  inside.replaceChildren(
    make("button", { class: "close", type: "button", onclick: () => dialog.close() }, "Close"),
    make("h2", { id: "detail-title" }, detail.title), facts(detail.facts));
  if (detail.note) inside.append(make("p", { class: "note" }, detail.note));
  dialog.showModal();
  if (detail.histogram) {
    const { edges, counts, exact } = detail.histogram;
    const plot = make("div", { class: "plot" });
    inside.append(make("h3", {}, "Errors by size"), plot);
    if (exact) inside.append(make("p", { class: "note" }, `${exact} elements are exactly equal, and have no place on this axis.`));
    const middles = counts.map((_, i) => (edges[i] + edges[i + 1]) / 2);
    Plotly.newPlot(plot, [{ type: "bar", x: middles, y: counts, marker: { color: colour("accent") }, hovertemplate: "10^%{x:.2f}: %{y}<extra></extra>" }],
      layout({ height: 220, bargap: 0.05, xaxis: { title: { text: "|difference|, as a power of ten" } }, yaxis: { title: { text: "elements" } } }), settings);
  }
  if (detail.rows.length) inside.append(table({ columns: detail.columns, rows: detail.rows, tones: [], keys: [], title: "entries" }, section));
}

dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

// ── parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function table(part, section) {
  const row = (cells, i) => make("tr", {}, ...cells.map((text, column) => {
    const key = part.keys[i];
    const inside = column === 0 && key && section.details[key] ? make("button", { type: "button", onclick: () => open(section, key) }, text || "open") : text;
    const classes = [column === 0 && part.tones[i], text.length > 48 && "long"].filter(Boolean).join(" ");
    return make("td", classes ? { class: classes } : {}, inside);
  }));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": part.title },
    make("table", {}, make("thead", {}, make("tr", {}, ...part.columns.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...part.rows.map(row))));
}

// A plot whose entries can be walked with the arrow keys and opened with Enter, as well as clicked.
function walked(plot, columns, rows, describe, mark, choose) {
  let at = null;
  plot.tabIndex = 0;
  plot.setAttribute("role", "application");
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) {
      at = at ? [Math.min(Math.max(at[0] + step[0], 0), columns - 1), Math.min(Math.max(at[1] + step[1], 0), rows - 1)] : [0, 0];
      mark(...at);
      said(describe(...at));
      event.preventDefault();
    } else if ((event.key === "Enter" || event.key === " ") && at) {
      choose(...at);
      event.preventDefault();
    }
  });
}

const short = (text, most) => (text.length > most ? `…${text.slice(1 - most)}` : text);

function grid(part, section) {
  const plot = make("div", { class: "plot", "aria-label": `${part.title}. Heat map; the arrow keys walk its entries, Enter opens one.` });
  const least = floor(part.values.flat()), middle = Math.log10(part.line);
  const flat = part.values.flat().filter((x) => x !== null).map((x) => log(x, least));
  const low = Math.min(middle - 3, ...flat), high = Math.max(middle + 3, ...flat);
  const turn = (middle - low) / (high - low);
  const crossed = part.wrong.flatMap((row, r) => row.flatMap((wrong, c) => (wrong ? [[r, c]] : [])));
  const explained = (r, c) => part.explained.length > 0 && part.explained[r][c];
  const told = (r, c) => `${part.columns[c]}: ${shown(part.values[r][c])} ${part.unit}`
    + (part.wrong.length && part.wrong[r][c] ? ", does not hold" : explained(r, c) ? ", explained" : "");
  const contents = () => {
    const paper = dark.matches ? ["#1d3a4a", "#2f7d8c", "#e8c15a", "#e0654a", "#ff5a5f"] : ["#eef5f8", "#6fb6c4", "#f2c14e", "#dd6b3f", "#a3121a"];
    const scale = [[0, paper[0]], [turn, paper[1]], [turn * 1.002, paper[2]], [turn + (1 - turn) * 0.4, paper[3]], [1, paper[4]]];
    const ticks = Array.from({ length: 6 }, (_, i) => low + (i * (high - low)) / 5);
    const width = narrow() ? 16 : 46;
    const violet = dark.matches ? ["#2a2440", "#9d86e0"] : ["#efe9fb", "#6c4fc0"];
    const cells = (wanted) => ({
      type: "heatmap", x: part.columns.map((_, i) => i), y: part.rows.map((_, i) => i), zmin: low, zmax: high, xgap: 1, ygap: 1, hoverongaps: false,
      z: part.values.map((row, r) => row.map((x, c) => (explained(r, c) === wanted ? log(x, least) : null))),
      text: part.values.map((row, r) => row.map((_, c) => `${plain(part.rows[r])}<br>${plain(told(r, c))}`)), hovertemplate: "%{text}<extra></extra>",
    });
    return [[{
      ...cells(false), colorscale: scale,
      colorbar: { title: { text: plain(part.unit), side: narrow() ? "top" : "right" }, tickvals: ticks, ticktext: ticks.map((t) => `1e${t.toFixed(0)}`),
        thickness: 12, outlinewidth: 0, ...(narrow() ? { orientation: "h", y: -0.02, yanchor: "top" } : {}) },
    }, { ...cells(true), colorscale: [[0, violet[0]], [1, violet[1]]], showscale: false }, {
      type: "scatter", mode: "markers", x: crossed.map(([, c]) => c), y: crossed.map(([r]) => r), hoverinfo: "skip", showlegend: false,
      marker: { symbol: "x", size: 10, color: colour("bad"), line: { color: colour("paper"), width: 1.5 } },
    }], layout({
      height: Math.max(180, Math.min(16000, (narrow() ? 200 : 110) + part.rows.length * 20)),
      xaxis: { tickvals: part.columns.map((_, i) => i), ticktext: part.columns.map((t) => plain(short(t, 18))), side: "top", showgrid: false, tickangle: part.columns.length > (narrow() ? 2 : 8) ? -60 : 0 },
      yaxis: { tickvals: part.rows.map((_, i) => i), ticktext: part.rows.map((t) => plain(short(t, width))), autorange: "reversed", showgrid: false },
    })];
  };
  const choose = (c, r) => { if (part.keys.length && part.keys[r][c]) open(section, part.keys[r][c]); };
  walked(plot, part.columns.length, part.rows.length,
    (c, r) => `${part.rows[r]}, ${told(r, c)}`,
    (c, r) => Plotly.relayout(plot, { shapes: [{ type: "rect", x0: c - 0.5, x1: c + 0.5, y0: r - 0.5, y1: r + 0.5, line: { color: colour("focus"), width: 3 } }] }), choose);
  return drawn(plot, contents, choose);
}

function curve(part, section) {
  const plot = make("div", { class: "plot", "aria-label": `${part.title}. Curves; the arrow keys walk along them, Enter opens a place.` });
  const least = floor(part.lines.flatMap((line) => line.values));
  const contents = () => {
    const colours = [colour("accent"), dark.matches ? "#f0a35e" : "#b8560b", colour("good"), colour("soft")];
    let next = 0;
    const lines = part.lines.map((line) => ({
      type: "scatter", mode: line.bound ? "lines" : "lines+markers", name: plain(line.name), x: part.labels.map((_, i) => i),
      y: line.values.map((x) => (x === null ? null : 10 ** log(x, least))), connectgaps: false,
      line: line.bound ? { color: colour("bad"), dash: "dash", width: 1.5, shape: "hvh" } : { width: 0.6, color: colours[next % 4] },
      ...(line.bound ? {} : { marker: { size: 5, color: colours[next++ % 4] } }),
      text: part.labels.map((label, i) => `${plain(label)}<br>${plain(line.name)}: ${shown(line.values[i])}`), hovertemplate: "%{text}<extra></extra>",
    }));
    const every = Math.max(1, Math.ceil(part.labels.length / (narrow() ? 10 : 36)));
    const ticks = part.labels.map((_, i) => i).filter((i) => i % every === 0);
    return [lines, layout({
      height: narrow() ? 380 : 420, legend: { orientation: "h", y: 1.02, yanchor: "bottom" },
      xaxis: { tickvals: ticks, ticktext: ticks.map((i) => plain(short(part.labels[i], 22))), tickangle: -60 },
      yaxis: { type: "log", title: { text: plain(part.unit) }, exponentformat: "power" },
    })];
  };
  const choose = (i) => { if (part.keys[i]) open(section, part.keys[i]); };
  walked(plot, part.labels.length, 1,
    (i) => `${part.labels[i]}: ${part.lines.map((line) => `${line.name} ${shown(line.values[i])}`).join(", ")}`,
    (i) => Plotly.relayout(plot, { shapes: [{ type: "line", x0: i, x1: i, y0: 0, y1: 1, yref: "paper", line: { color: colour("focus"), width: 2 } }] }), choose);
  return drawn(plot, contents, choose);
}

const PARTS = { table, grid, curve };

// ── the page ────────────────────────────────────────────────────────────────────────────────────────────────────────

sections.forEach((section, i) => {
  document.querySelector("nav").append(make("a", { href: `#section-${i}` }, section.title));
  const heading = make("h2", {}, section.title, make("span", { class: `verdict ${section.tone}` }, section.verdict));
  const whole = make("section", { id: `section-${i}` }, heading, facts(section.facts));
  main.append(whole);
  if (section.cause.length) whole.append(make("div", { class: "cause" }, make("h3", {}, "First cause"), facts(section.cause)));
  for (const part of section.parts) {
    whole.append(make("h3", {}, part.title));
    if (part.note) whole.append(make("p", { class: "note" }, part.note));
    whole.append(PARTS[part.kind](part, section));
  }
});
main.append(make("footer"));
const again = () => drawings.forEach((draw) => draw());
dark.addEventListener("change", again);
matchMedia("(max-width: 640px)").addEventListener("change", again);
