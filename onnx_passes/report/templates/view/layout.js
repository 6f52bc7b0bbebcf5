// Places for what is shown: dagre computes them.

const LONGEST = 34; // characters of a label
const pen = document.createElement("canvas").getContext("2d");
pen.font = `600 12.5px ${getComputedStyle(document.body).fontFamily}`;

/** Return the width of a label in pixels, as the style of names has it. */
function wide(text) {
  return pen.measureText(text).width;
}

/** Return a text that fits a box; the whole one stands in its title and in the panel. */
function short(text) {
  return text.length <= LONGEST ? text : text.slice(0, 14) + "…" + text.slice(-19);
}

/** Return the title of an open group. */
function titled(group) {
  return `− ${short(data.groups[group].n || "(no name)")}`;
}

/** Return the lines of an item. */
function lines(item) {
  if (item.value !== undefined) {
    const value = data.values[item.value];
    return [short(value.n), short(value.t)];
  }
  if (item.closed !== undefined) {
    const group = data.groups[item.closed];
    return [short(group.n || "(no name)"), group.size === 1 ? "1 node" : group.size.toLocaleString("en") + " nodes"];
  }
  const node = data.nodes[item.node];
  const type = node.u.length ? data.values[node.u[0]].t : "";
  return [short((node.d ? node.d + "::" : "") + node.o), short(type)];
}

/**
 * Place what is shown: each open group by itself, so that much of a large graph can be open.
 *
 * An edge that enters or leaves a group does so at one point at the top or the bottom of its
 * frame, and is drawn in parts: outside of the frame, and inside.
 */
function layout(view) {
  const levels = new Map([...open].map((group) => [group, { group, boxes: [], edges: new Map() }]));
  view.items.forEach((item) => levels.get(item.group).boxes.push(item));
  const join = (group, from, to, values) => {
    const { edges } = levels.get(group);
    const key = from + ">" + to;
    if (!edges.has(key)) edges.set(key, { from, to, values: new Set() });
    values.forEach((value) => edges.get(key).values.add(value));
  };
  for (const { from, to, values } of view.edges) {
    const left = [0, ...around(from.group)];
    const right = [0, ...around(to.group)];
    let common = 0;
    while (common + 1 < Math.min(left.length, right.length) && left[common + 1] === right[common + 1]) common += 1;
    const box = (path, depth, item) => (depth < path.length ? "f" + path[depth] : item.id);
    join(left[common], box(left, common + 1, from), box(right, common + 1, to), values);
    for (let depth = common + 1; depth < left.length; depth++) join(left[depth], box(left, depth + 1, from), "out", values);
    for (let depth = common + 1; depth < right.length; depth++) join(right[depth], "in", box(right, depth + 1, to), values);
  }
  const found = { frames: [], lines: [] };
  const size = levelSize(levels, 0);
  settle(levels.get(0), 0, 0, found);
  return { ...found, ...size };
}

const MARGIN = 16; // between a frame and what is in it

/** Place one open group, those in it first; return its size. */
function levelSize(levels, group) {
  const level = levels.get(group);
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 30 });
  for (const item of level.boxes) {
    item.lines = lines(item);
    graph.setNode(item.id, { width: Math.max(70, Math.max(...item.lines.map(wide)) + 22), height: 42 });
  }
  level.inner = data.groups[group].c.filter(([isGroup, child]) => isGroup && levels.has(child) && data.groups[child].size).map(([, child]) => levels.get(child));
  for (const inner of level.inner) graph.setNode("f" + inner.group, levelSize(levels, inner.group));
  for (const edge of level.edges.values()) {
    for (const port of [edge.from, edge.to]) if (port === "in" || port === "out") graph.setNode(port, { width: 1, height: 1 });
    graph.setEdge(edge.from, edge.to, {});
  }
  dagre.layout(graph);
  level.graph = graph;
  const { width: across, height: high } = graph.graph();
  const label = group ? wide(titled(group)) + 24 : 0;
  return (level.size = { width: Math.max(across || 1, label) + 2 * MARGIN, height: (high || 1) + 2 * MARGIN });
}

/** Turn places within a group into places in the picture. */
function settle(level, left, top, found) {
  const { graph, size } = level;
  const at = (id) => {
    const { x, y, width, height } = graph.node(id);
    return { x: left + MARGIN + x, y: top + MARGIN + y, width, height };
  };
  level.in = graph.hasNode("in") ? { x: at("in").x, y: top } : null;
  level.out = graph.hasNode("out") ? { x: at("out").x, y: top + size.height } : null;
  for (const item of level.boxes) item.at = at(item.id);
  for (const inner of level.inner) {
    const place = at("f" + inner.group);
    found.frames.push({ id: "f" + inner.group, framed: inner.group, at: place });
    settle(inner, place.x - place.width / 2, place.y - place.height / 2, found);
  }
  const frames = new Map(level.inner.map((inner) => ["f" + inner.group, inner]));
  for (const edge of level.edges.values()) {
    const points = graph.edge(edge.from, edge.to).points.map(({ x, y }) => ({ x: left + MARGIN + x, y: top + MARGIN + y }));
    const first = edge.from === "in" ? level.in : frames.has(edge.from) && frames.get(edge.from).out;
    const last = edge.to === "out" ? level.out : frames.has(edge.to) && frames.get(edge.to).in;
    if (first) points[0] = first;
    if (last) points[points.length - 1] = last;
    found.lines.push({ points, values: [...edge.values], arrow: !last });
  }
}
