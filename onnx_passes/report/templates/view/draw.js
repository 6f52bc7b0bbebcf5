// The picture: SVG elements, made from text that never becomes markup.

const SVG = "http://www.w3.org/2000/svg";
let world, canvas, extent;
const camera = { x: 0, y: 0, scale: 1 };

function element(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function words(text, x, y, style) {
  return element("text", { x, y, class: style }, text);
}

/** Return a smooth line through points. */
function curve(points) {
  if (points.length < 2) return "";
  const parts = [`M${points[0].x} ${points[0].y}`];
  for (let i = 1; i < points.length - 1; i++) {
    const end = { x: (points[i].x + points[i + 1].x) / 2, y: (points[i].y + points[i + 1].y) / 2 };
    parts.push(`Q${points[i].x} ${points[i].y} ${end.x} ${end.y}`);
  }
  const last = points[points.length - 1];
  return parts.join(" ") + ` L${last.x} ${last.y}`;
}

/** Return what a reader of the screen hears of an item: what it shows, and what it is. */
function told(item) {
  const seen = item.lines.join(" ");
  if (item.closed !== undefined) return `${seen}, open group ${data.groups[item.closed].n}`;
  if (item.value !== undefined) return `${seen}, ${item.id[0] === "i" ? "input" : "output"} ${data.values[item.value].n}`;
  return `${seen}, node ${data.nodes[item.node].n}`;
}

function box(item) {
  const { x, y, width, height } = item.at;
  const kind = item.closed !== undefined ? "group" : item.value !== undefined ? "port" : "node";
  const shape = { x: x - width / 2, y: y - height / 2, width, height, rx: kind === "port" ? 20 : 6 };
  const drawn = element("g", { class: `item ${kind} ${tone(item)}`, tabindex: "0", role: "button", "aria-label": told(item), "data-id": item.id });
  if (kind === "group") drawn.append(element("rect", { ...shape, x: shape.x + 4, y: shape.y + 4, class: "behind" }));
  drawn.append(element("rect", shape), words(item.lines[0], x, y - 3, "name"), " ", words(item.lines[1], x, y + 13, "type"));
  return drawn;
}

function frame(item) {
  const { x, y, width, height } = item.at;
  const left = x - width / 2;
  const top = y - height / 2;
  const label = titled(item.framed);
  const across = wide(label) + 20;
  return element(
    "g",
    { class: "frame" },
    element("rect", { x: left, y: top, width, height, rx: 8 }),
    element(
      "g",
      { class: "item title", tabindex: "0", role: "button", "aria-label": `${label}, close group ${data.groups[item.framed].n}`, "data-id": item.id },
      element("rect", { x: left, y: top - 10, width: across, height: 20, rx: 5 }),
      words(label, left + across / 2, top + 4, "name"),
    ),
  );
}

/** Draw what is shown, anew. */
function draw() {
  const view = shown();
  extent = layout(view);
  world = element("g", {});
  view.frames = extent.frames;
  view.frames.forEach((item) => world.append(frame(item)));
  extent.lines.forEach((edge) => {
    const first = data.values[edge.values[0]];
    const more = edge.values.length > 1 ? ` and ${edge.values.length - 1} more` : "";
    const drawn = element("path", { d: curve(edge.points), class: "edge" });
    if (edge.arrow) drawn.setAttribute("marker-end", "url(#tip)");
    drawn.append(element("title", {}, `${first.n}: ${first.t}${more}`));
    world.append(drawn);
  });
  view.items.forEach((item) => world.append(box(item)));
  const tip = element("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, element("path", { d: "M0 0 L8 4 L0 8 Z", class: "tip" }));
  canvas = element("svg", { role: "group", "aria-label": "The graph" }, element("defs", {}, tip), world);
  document.getElementById("graph").replaceChildren(canvas);
  place();
  return view;
}

function place() {
  world.setAttribute("transform", `translate(${camera.x} ${camera.y}) scale(${camera.scale})`);
}

function zoom(factor, x, y) {
  const scale = Math.min(3, Math.max(0.03, camera.scale * factor));
  const real = scale / camera.scale;
  camera.x = x - (x - camera.x) * real;
  camera.y = y - (y - camera.y) * real;
  camera.scale = scale;
  place();
}

/** Show all of the graph, or its beginning if all would be too small to read. */
function fit(smallest) {
  const { clientWidth, clientHeight } = document.getElementById("graph");
  const whole = Math.min(clientWidth / (extent.width + 40), clientHeight / (extent.height + 40), 1.2);
  camera.scale = Math.max(whole, smallest || 0);
  camera.x = (clientWidth - extent.width * camera.scale) / 2;
  camera.y = whole < camera.scale ? 20 : (clientHeight - extent.height * camera.scale) / 2;
  place();
}

/** Bring an item to the middle. */
function centre(at) {
  const { clientWidth, clientHeight } = document.getElementById("graph");
  camera.scale = Math.max(camera.scale, 0.8);
  camera.x = clientWidth / 2 - at.x * camera.scale;
  camera.y = clientHeight / 2 - at.y * camera.scale;
  place();
}
