"use strict";
// The model of the page: groups that are open or closed, and what is shown of the graph.

const data = JSON.parse(document.getElementById("data").textContent);
const MOST_SHOWN = 320; // beyond this, groups that were opened first are closed again
const FIRST_SHOWN = 40; // groups are opened from the start up to this

const open = new Set([0]); // groups, in the order they were opened

/** Return the groups around a node or a group, from the outside in, without the root. */
function around(group) {
  const found = [];
  for (let g = group; g !== null && g !== 0; g = data.groups[g].p) found.unshift(g);
  return found;
}

// A group may have been split after its nodes were placed: children tell where they are.
data.groups.forEach((group, place) => {
  group.size = 0;
  for (const [isGroup, child] of group.c) {
    if (!isGroup) data.nodes[child].g = place;
  }
});
data.nodes.forEach((node) => {
  node.path = around(node.g);
  for (const g of [0, ...node.path]) data.groups[g].size += 1;
});

const producer = new Map(); // value -> the node that computes it
const readers = new Map(); // value -> the nodes that read it
data.nodes.forEach((node, place) => {
  for (const value of node.u) producer.set(value, place);
  for (const value of node.i) {
    if (!readers.has(value)) readers.set(value, []);
    readers.get(value).push(place);
  }
});

/** Return the id of what stands for a node: itself, or the outermost closed group around it. */
function standIn(place) {
  for (const g of data.nodes[place].path) if (!open.has(g)) return "g" + g;
  return "n" + place;
}

/** Return what is shown: items by id, each in a group, and the edges between them. */
function shown() {
  const items = new Map();
  const add = (item, group) => items.set(item.id, { ...item, group });
  const walk = (group) => {
    for (const [isGroup, child] of data.groups[group].c) {
      if (!isGroup) add({ id: "n" + child, node: child }, group);
      else if (!data.groups[child].size) continue;
      else if (open.has(child)) walk(child);
      else add({ id: "g" + child, closed: child }, group);
    }
  };
  data.inputs.forEach((value) => add({ id: "i" + value, value }, 0));
  walk(0);
  data.outputs.forEach((value) => add({ id: "o" + value, value }, 0));
  const edges = new Map();
  const connect = (from, to, value) => {
    if (from === to || !items.has(from) || !items.has(to)) return;
    const key = from + ">" + to;
    if (!edges.has(key)) edges.set(key, { from: items.get(from), to: items.get(to), values: new Set() });
    edges.get(key).values.add(value);
  };
  const source = (value) => (producer.has(value) ? standIn(producer.get(value)) : "i" + value);
  data.nodes.forEach((node, place) => {
    for (const value of node.i) connect(source(value), standIn(place), value);
  });
  for (const value of data.outputs) connect(source(value), "o" + value, value);
  return { items, edges: [...edges.values()] };
}

/** Return how many items a group shows once it is open. */
function width(group) {
  return data.groups[group].c.length;
}

/** Open groups level by level, as long as the whole stays small. */
function openSome(limit) {
  for (;;) {
    const next = [];
    for (const group of open) {
      for (const [isGroup, child] of data.groups[group].c) if (isGroup && !open.has(child)) next.push(child);
    }
    const more = next.reduce((sum, group) => sum + width(group), 0);
    if (!next.length || shown().items.size + more > limit) return;
    next.forEach((group) => open.add(group));
  }
}

/** Open a group, and close those that were opened first if too much would be shown. */
function openGroup(group) {
  const kept = new Set([0, group, ...around(group)]);
  for (const g of kept) {
    open.delete(g);
    open.add(g);
  }
  for (const g of [...open]) {
    if (shown().items.size <= MOST_SHOWN) break;
    if (!kept.has(g)) closeGroup(g);
  }
}

/** Close a group and all in it. */
function closeGroup(group) {
  open.delete(group);
  for (const g of [...open]) if (around(g).includes(group)) open.delete(g);
}
