// What the reader does: select, open, close, find, move.

let view;
let chosen = null;
const byId = (id) => document.getElementById(id);

function select(id, focus) {
  chosen = id;
  canvas.querySelectorAll(".chosen").forEach((old) => old.classList.remove("chosen"));
  const drawn = canvas.querySelector(`[data-id="${id}"]`);
  if (!drawn) return;
  drawn.classList.add("chosen");
  if (focus) drawn.focus({ preventScroll: true });
  const item = view.items.get(id);
  if (item) describe(item);
}

function redraw(id) {
  view = draw();
  const count = view.items.size.toLocaleString("en");
  byId("said").textContent = `${data.nodes.length.toLocaleString("en")} nodes in ${count} boxes.`;
  if (id) select(id, false);
}

/** Keep a point of the old picture where it was, as far as the new one has it. */
function toggle(id) {
  const group = Number(id.slice(1));
  if (id[0] === "f") closeGroup(group);
  else openGroup(group);
  const next = (id[0] === "f" ? "g" : "f") + group;
  redraw();
  const item = view.items.get(next) || view.frames.find((frame) => frame.id === next);
  if (item) centre({ x: item.at.x, y: item.at.y - (id[0] === "g" ? item.at.height / 2 - 60 : 0) });
  select(next, true);
}

/** Open what hides a node, and bring it to the middle. */
function reveal(place) {
  const hidden = data.nodes[place].path.filter((g) => !open.has(g));
  if (hidden.length) {
    openGroup(data.nodes[place].g);
    redraw();
  }
  centre(view.items.get("n" + place).at);
  select("n" + place, true);
}

function act(target) {
  const drawn = target.closest("[data-id]");
  if (!drawn) return;
  const id = drawn.dataset.id;
  if (id[0] === "g" || id[0] === "f") {
    const item = view.items.get(id);
    if (item) describe(item);
    toggle(id);
  } else select(id, false);
}

const index = data.nodes.map((node) => [node.n, node.d, node.o, ...node.u.map((v) => data.values[v].n)].join(" ").toLowerCase());
const MOST_FOUND = 30;

function find() {
  const asked = byId("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const found = asked.length ? [...index.keys()].filter((i) => asked.every((word) => index[i].includes(word))) : [];
  const rows = found.slice(0, MOST_FOUND).map((place) => {
    const node = data.nodes[place];
    const scope = node.s;
    const button = html("button", { type: "button" }, html("strong", {}, node.o), ` ${node.n}`, html("span", { class: "count" }, scope ? ` ${scope}` : ""));
    button.addEventListener("click", () => reveal(place));
    return html("li", {}, button);
  });
  byId("results").replaceChildren(...rows);
  byId("results").hidden = !rows.length;
  if (asked.length) byId("said").textContent = `${found.length.toLocaleString("en")} found${found.length > MOST_FOUND ? `, the first ${MOST_FOUND} are listed` : ""}.`;
  return found;
}

function listen() {
  const stage = byId("graph");
  let drag = null;
  stage.addEventListener("pointerdown", (event) => (drag = { x: event.clientX, y: event.clientY, moved: false }));
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const dx = event.clientX - drag.x;
    const dy = event.clientY - drag.y;
    if (Math.abs(dx) + Math.abs(dy) < 4 && !drag.moved) return;
    Object.assign(drag, { x: event.clientX, y: event.clientY, moved: true });
    camera.x += dx;
    camera.y += dy;
    place();
  });
  addEventListener("pointerup", (event) => {
    const clicked = drag && !drag.moved && stage.contains(event.target);
    drag = null;
    if (clicked) act(event.target);
  });
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { left, top } = stage.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - left, event.clientY - top);
  }, { passive: false });
  stage.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      act(event.target);
    }
  });
  const middle = (factor) => () => zoom(factor, stage.clientWidth / 2, stage.clientHeight / 2);
  byId("in").addEventListener("click", middle(1.3));
  byId("out").addEventListener("click", middle(1 / 1.3));
  byId("fit").addEventListener("click", () => fit(0));
  byId("open").addEventListener("click", () => {
    openSome(Math.min(MOST_SHOWN, 2 * shown().items.size + 20));
    redraw(chosen);
    fit(0.4);
  });
  byId("close").addEventListener("click", () => {
    open.clear();
    open.add(0);
    redraw();
    fit(0.4);
  });
  byId("mode").addEventListener("change", (event) => {
    mode = event.target.value;
    survey();
    redraw(chosen);
  });
  byId("search").addEventListener("input", find);
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      const found = find();
      if (found.length) reveal(found[0]);
    }
  });
}

if (data.nodes.some((node) => node.e)) byId("mode").value = mode = "evidence";
openSome(FIRST_SHOWN);
survey();
listen();
redraw();
fit(0.7);
