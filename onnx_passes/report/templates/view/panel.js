// Colours, the legend, and what the panel says of what is selected.

const EVIDENCE = ["proved", "executed", "outputs only", "blind", "nothing"]; // the strongest first
const RANGES = ["within 1", "within 10", "within 100", "within 10,000", "larger", "not bounded"];
const TONES = 8;
let mode = "operator";
let ranks = []; // names of the current colours, in order

function html(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function span(range) {
  return range ? Math.max(...range.map((end) => Math.abs(Number(String(end).replace("inf", "Infinity"))))) : Infinity;
}

/** Return what a node is coloured by; null for nothing. */
function quality(node) {
  const value = node.u.length ? data.values[node.u[0]] : null;
  if (mode === "operator") return node.o;
  if (mode === "evidence") return node.e || null;
  if (mode === "region") return node.r || null;
  if (mode === "format") return (value && value.f) || null;
  const limit = span(value && value.r);
  return RANGES[[1, 10, 100, 10000].findIndex((bound) => limit <= bound)] || (limit < Infinity ? RANGES[4] : RANGES[5]);
}

/** Count the colours of the mode, and say in which order they come. */
function survey() {
  const counts = new Map();
  for (const node of data.nodes) {
    const found = quality(node);
    if (found !== null) counts.set(found, (counts.get(found) || 0) + 1);
  }
  const fixed = { evidence: EVIDENCE, range: RANGES }[mode];
  ranks = fixed ? fixed.filter((name) => counts.has(name)) : [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || (a < b ? -1 : 1));
  const order = fixed || ranks;
  const rows = ranks.slice(0, fixed ? 8 : TONES).map((name) => {
    const swatch = html("span", { class: `swatch ${style(name, order)}` });
    return html("li", {}, swatch, ` ${name} `, html("span", { class: "count" }, counts.get(name).toLocaleString("en")));
  });
  const more = ranks.length - rows.length;
  if (more > 0) rows.push(html("li", {}, html("span", { class: "swatch" }), ` ${more} more`));
  document.getElementById("legend").replaceChildren(...rows);
  const missing = {
    evidence: "No run is shown: onnx-passes view MODEL --report FILE takes the report of one.",
    region: "No run is shown: onnx-passes view MODEL --report FILE takes the report of one.",
  }[mode];
  document.getElementById("hint").textContent = rows.length ? "" : missing || "Nothing is known.";
}

function style(name, order) {
  const place = order.indexOf(name);
  if (place < 0 || place >= TONES) return "";
  return mode === "evidence" ? `evidence${place}` : mode === "range" ? `range${place}` : `tone${place}`;
}

/** Return the style of an item; a closed group has that of its weakest, or only, colour. */
function tone(item) {
  if (item.value !== undefined) return "";
  const order = { evidence: EVIDENCE, range: RANGES }[mode] || ranks;
  if (item.node !== undefined) return style(quality(data.nodes[item.node]), order);
  if (mode === "operator") return "";
  let worst = -1;
  const kinds = new Set();
  for (const node of members(item.closed)) {
    const found = quality(node);
    if (found === null) continue;
    kinds.add(found);
    worst = Math.max(worst, order.indexOf(found));
  }
  if (mode === "evidence" || mode === "range") return worst < 0 ? "" : style(order[worst], order);
  return kinds.size === 1 ? style([...kinds][0], order) : kinds.size ? "mixed" : "";
}

function* members(group) {
  for (const [isGroup, child] of data.groups[group].c) {
    if (isGroup) yield* members(child);
    else yield data.nodes[child];
  }
}

function interval(range) {
  return range ? `[${range[0]}, ${range[1]}]` : null;
}

/** Say all there is of a value, with links to the nodes around it. */
function valueRow(place, link) {
  const value = data.values[place];
  const parts = [html("code", {}, value.n || "(none)"), ` ${value.t}`];
  if (value.k === 2) parts.push(`, constant, ${value.b}`);
  if (value.r) parts.push(`, in ${interval(value.r)}`);
  const row = html("li", {}, ...parts);
  for (const other of link || []) {
    const node = data.nodes[other];
    const button = html("button", { type: "button", class: "link" }, `${node.o} ${node.n}`.trim());
    button.addEventListener("click", () => reveal(other));
    row.append(" ", button);
  }
  return row;
}

function listed(title, rows) {
  return rows.length ? [html("h3", {}, title), html("ul", {}, ...rows)] : [];
}

/** Show a node, a value or a group in the panel. */
function describe(item) {
  const panel = document.getElementById("details");
  if (item.closed !== undefined) {
    const group = data.groups[item.closed];
    const outer = around(group.p || 0).map((g) => data.groups[g].n).join(" / ");
    panel.replaceChildren(html("p", {}, html("strong", {}, group.n)), html("p", {}, `${group.size.toLocaleString("en")} nodes${outer ? ` in ${outer}` : ""}`));
    return;
  }
  if (item.value !== undefined) {
    const from = producer.has(item.value) ? [producer.get(item.value)] : [];
    panel.replaceChildren(html("ul", {}, valueRow(item.value, [...from, ...(readers.get(item.value) || []).slice(0, 20)])));
    return;
  }
  const node = data.nodes[item.node];
  const scope = node.s;
  const attributes = node.a.map(([name, text]) => html("li", {}, html("code", {}, name), ` ${text}`));
  const makers = node.i.map((v) => valueRow(v, producer.has(v) ? [producer.get(v)] : []));
  const users = node.u.map((v) => valueRow(v, (readers.get(v) || []).slice(0, 20)));
  panel.replaceChildren(
    html("p", {}, html("strong", {}, (node.d ? node.d + "::" : "") + node.o), " ", html("code", {}, node.n)),
    scope ? html("p", {}, `in ${scope}`) : "",
    node.e ? html("p", {}, `Evidence: ${node.e}. ${node.r}`) : "",
    ...listed("Attributes", attributes),
    ...listed("Inputs", makers),
    ...listed("Outputs", users),
  );
}
